// Search without a server: browsers start no worker from a file, so it runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      addEventListener("message", (event) => {
        if (event.source === this.inside) {
          const told = new MessageEvent("message", { data: event.data });
          this.dispatchEvent(told);
          if (this.onmessage) this.onmessage(told);
        }
      });
      this.inside.importScripts = (...urls) =>
        urls.reduce((before, source) => before.then(() => this.load(source)), Promise.resolve());
      this.inside.postMessage = (data) =>
        dispatchEvent(new MessageEvent("message", { data, source: this.inside }));
      this.ready = this.load(url);
    }
    load(source) {
      return new Promise((resolve) => {
        const script = this.inside.document.createElement("script");
        script.src = source;
        script.onload = resolve;
        this.inside.document.body.append(script);
      });
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {}
  };
}
