// Runs the module of the live view with a document and a model that have what it uses, and prints what it shows.

class Element {
  constructor(tag) {
    this.tag = tag;
    this.children = [];
    this.style = {};
    this.textContent = "";
  }
  append(...children) {
    this.children.push(...children);
  }
  appendChild(child) {
    this.children.push(child);
  }
  insertRow() {
    this.append(new Element("tr"));
    return this.children.at(-1);
  }
  insertCell() {
    this.append(new Element("td"));
    return this.children.at(-1);
  }
  getContext() {
    const calls = (this.calls = []);
    const note = (name) => (...values) => {
      if (!values.every(Number.isFinite)) throw new Error(`${name} of ${values}`);
      calls.push(name);
    };
    const names = ["clearRect", "fillRect", "beginPath", "lineTo", "stroke"];
    return Object.fromEntries(names.map((name) => [name, note(name)]));
  }
}

globalThis.document = { createElement: (tag) => new Element(tag) };

const listeners = new Map();
const sent = [];
const row = (name, value, quality) => ({ name, value, units: "%", quality, time: "12:00" });
const state = { rows: [row("a", "1.5", "good")], state: "connected", seconds: 60, omitted: 0 };
const model = {
  get: (name) => state[name],
  on: (name, call) => listeners.set(name, call),
  off: (name) => listeners.delete(name),
  send: (message) => sent.push(message),
};

const { default: view } = await import(process.argv[2]);
const el = new Element("div");
const end = view.render({ model, el });
const [table, status] = el.children;
const texts = () => table.children.slice(1).map((line) => line.children.map((cell) => cell.textContent));

listeners.get("msg:custom")({ kind: "trends", points: { a: [[0, -5, 1, 1], [1000, 1, 9, 2]] } });
listeners.get("msg:custom")({ kind: "points", points: { a: [[60500, 2, 2, 2]], b: [[60500, 5, 5, 5]] } });
state.rows = [row("a", "2", "bad: timed-out"), row("b", "<b>", "good")];
state.state = "disconnected";
state.omitted = 3;
listeners.get("change:rows")();
listeners.get("change:state")();
const canvas = table.children[1].children[3].children[0];
const shown = { sent, rows: texts(), status: status.textContent, strokes: canvas.calls.filter((call) => call === "stroke").length };
end();
console.log(JSON.stringify({ ...shown, listeners: listeners.size }));
