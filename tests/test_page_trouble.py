"""What goes wrong on the page is told in a sentence, and the page goes on."""

import pytest

import page as web
from cellwise.model import load

AND_SO = ", so the page shows a new puzzle; ask for the link again."


@pytest.mark.parametrize(
    ("link", "says"),
    [
        ("model=nobody", "This link names the model “nobody”, which is not here" + AND_SO),
        ("maze=20.perfect.1", "This link describes a maze that cannot be made" + AND_SO),
        ("maze=9999.perfect.1", "This link describes a maze that cannot be made" + AND_SO),
        ("maze=21.round.1", "This link describes a maze that cannot be made" + AND_SO),
        ("cells=21x21.AAAA&ends=3.4", "This link holds a maze that is cut off or changed" + AND_SO),
        ("cells=%00&ends=", "This link holds a maze that is cut off or changed" + AND_SO),
        ("model=fives&clues=123", "This link holds no Sudoku of 81 cells" + AND_SO),
        ("rate=7", "This link asks for a rate of “7”" + AND_SO),
        ("noise=NaN", "This link asks for a noise of “NaN”" + AND_SO),
        ("seed=-1", "This link holds a seed that is no number" + AND_SO),
        ("trials=1000000", "This link asks for a number of trials other than 1, 2, 4 or 8" + AND_SO),
        ("view=<img src=x>", "This link asks for a view that there is not" + AND_SO),
    ],
)
def test_a_link_somebody_edited(chromium, address, link, says):
    with web.opened(chromium, address, f"#{link}") as tab:
        assert tab.text("#notice-text") == says
        tab.js("cellwise.steps(2)")
        assert tab.js("cellwise.frame.steps") == 2


@pytest.mark.parametrize(
    ("clues", "says"),
    [
        (
            {0: 5, 1: 5},
            "The digit 5 at row 1, column 1 stands twice in a row, column or box; change one of the two.",
        ),
        (
            {0: 1, 1: 2, 2: 3, 9: 4, 10: 5, 11: 6, 18: 7, 19: 8, 24: 9},
            "This Sudoku has no solution; check its clues for a typing mistake.",
        ),
        ({}, "This Sudoku has several solutions; add clues until only one is left."),
    ],
    ids=["twice", "impossible", "several"],
)
def test_an_impossible_sudoku_is_told_and_thought_about(chromium, address, clues, says):
    text = "".join(str(clues.get(cell, ".")) for cell in range(81))
    with web.opened(chromium, address, f"#model=fives&clues={text}") as tab:
        assert tab.text("#verdict-text") == says
        tab.js("cellwise.steps(3)")
        assert tab.js("cellwise.frame.steps") == 3


def spoil(pages):
    weights = bytearray(pages["models/fives/model.safetensors"])
    weights[-1] ^= 1
    pages["models/fives/model.safetensors"] = bytes(weights)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            spoil,
            "The model “fives” is damaged or not the one that its config.json names; get its folder again.",
        ),
        (
            lambda pages: pages.update({"models/fives/config.json": b"{"}),
            "The model “fives” has a config.json that is not valid JSON; get its folder again.",
        ),
        (
            lambda pages: pages.pop("models/fives/model.safetensors"),
            "The model “fives” is not here; get its folder again.",
        ),
    ],
    ids=["damaged", "no JSON", "missing"],
)
def test_a_broken_model_is_left_out(chromium, change, says):
    with web.served([load("maze-ood"), web.fives()], change) as address:
        tab = chromium.page(still=True)
        tab.open(f"{address}#model=fives")
        assert tab.text("#notice-text") == says
        tab.js("cellwise.steps(2)")
        assert tab.js("cellwise.model.name") == "maze-ood"
        tab.close()


def test_no_gpu_is_no_trouble(chromium, address):
    with web.opened(chromium, address) as tab:
        assert tab.js("cellwise.running") == {"device": "CPU", "why": "no GPU was found"}
        tab.choose("#device", "gpu")
        tab.wait(
            "document.getElementById('notice-text').textContent.startsWith('The cells think on the CPU: ')"
        )
        tab.js("cellwise.steps(2)")


def test_a_page_without_any_model_says_so(chromium):
    with web.served() as address:
        tab = chromium.page(still=True)
        tab.open(address, ready="document.getElementById('verdict').dataset.kind === 'stuck'")
        assert tab.text("#verdict-text") == (
            "This page cannot start: There is no model that this page can use; get its folder again."
        )
        tab.close()
