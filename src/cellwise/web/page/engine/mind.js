// The page's side of the worker: requests go out, answers come back.

export class Mind {
  constructor() {
    this.worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
    this.waiting = new Map();
    this.sent = 0;
    this.worker.onmessage = ({ data: { id, answer, problem } }) => {
      const { resolve, reject } = this.waiting.get(id);
      this.waiting.delete(id);
      if (problem === undefined) resolve(answer);
      else reject(new Error(problem));
    };
    this.worker.onerror = (event) => {
      this.broken = new Error(event.message ?? "the worker could not start");
      for (const { reject } of this.waiting.values()) reject(this.broken);
      this.waiting.clear();
    };
  }

  /** Asks the worker for something; see `requests` in worker.js. */
  ask(request, argument) {
    if (this.broken) return Promise.reject(this.broken);
    const id = ++this.sent;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.worker.postMessage({ id, request, argument });
    });
  }
}
