// The view of trunkline.jupyter.LiveView: a row with value and trend for each variable.

const WIDTH = 320;
const HEIGHT = 48;

/** Draws the points [time in ms, least, greatest, newest value] of the last `seconds`. */
export function draw(context, points, seconds) {
  context.clearRect(0, 0, WIDTH, HEIGHT);
  if (points.length === 0) return;
  const end = points[points.length - 1][0];
  const low = Math.min(...points.map((point) => point[1]));
  const high = Math.max(...points.map((point) => point[2]));
  const scale = high > low ? (HEIGHT - 4) / (high - low) : 0;
  const x = (point) => WIDTH - 2 - ((end - point[0]) / 1000 / seconds) * (WIDTH - 4);
  const y = (value) => (scale ? HEIGHT - 2 - (value - low) * scale : HEIGHT / 2);
  context.fillStyle = "rgba(31, 119, 180, 0.35)";
  for (const point of points) {
    context.fillRect(x(point) - 0.5, y(point[2]), 1, y(point[1]) - y(point[2]) + 1);
  }
  context.strokeStyle = "rgb(31, 119, 180)";
  context.beginPath();
  points.forEach((point, index) => {
    if (index > 0) context.lineTo(x(point), y(points[index - 1][3]));
    context.lineTo(x(point), y(point[3]));
  });
  context.stroke();
}

/** Removes the points that are older than `seconds` before the newest one. */
export function shorten(points, seconds) {
  const end = points.length ? points[points.length - 1][0] : 0;
  return points.filter((point) => end - point[0] <= seconds * 1000);
}

function render({ model, el }) {
  const trends = new Map();
  const rows = new Map();
  const table = document.createElement("table");
  const head = table.insertRow();
  for (const text of ["name", "value", "units", "trend", "least", "greatest", "quality", "time"]) {
    const cell = document.createElement("th");
    cell.textContent = text;
    head.appendChild(cell);
  }
  const status = document.createElement("div");
  el.append(table, status);

  const rowOf = (name) => {
    let row = rows.get(name);
    if (!row) {
      const line = table.insertRow();
      row = {};
      for (const key of ["name", "value", "units", "trend", "least", "greatest", "quality", "time"]) {
        row[key] = line.insertCell();
      }
      row.value.style.fontWeight = "bold";
      const canvas = document.createElement("canvas");
      canvas.width = WIDTH;
      canvas.height = HEIGHT;
      row.trend.appendChild(canvas);
      row.context = canvas.getContext("2d");
      rows.set(name, row);
    }
    return row;
  };

  const showRows = () => {
    for (const data of model.get("rows")) {
      const row = rowOf(data.name);
      for (const key of ["name", "value", "units", "quality", "time"]) {
        row[key].textContent = data[key];
      }
      row.quality.style.color = data.quality.startsWith("good") ? "" : "firebrick";
    }
  };

  const showState = () => {
    const omitted = model.get("omitted");
    const state = model.get("state");
    status.textContent =
      (state === "connected" ? "" : state) + (omitted ? ` ${omitted} more variables are not shown` : "");
  };

  const showTrend = (name) => {
    const points = shorten(trends.get(name) ?? [], model.get("seconds"));
    trends.set(name, points);
    const row = rowOf(name);
    if (points.length) {
      row.least.textContent = Math.min(...points.map((point) => point[1])).toPrecision(6);
      row.greatest.textContent = Math.max(...points.map((point) => point[2])).toPrecision(6);
    }
    draw(row.context, points, model.get("seconds"));
  };

  const onMessage = (message) => {
    for (const [name, points] of Object.entries(message.points ?? {})) {
      const known = message.kind === "trends" ? [] : trends.get(name) ?? [];
      trends.set(name, known.concat(points));
      showTrend(name);
    }
  };

  model.on("change:rows", showRows);
  model.on("change:state", showState);
  model.on("change:omitted", showState);
  model.on("msg:custom", onMessage);
  showRows();
  showState();
  model.send({ kind: "opened" });
  return () => {
    model.off("change:rows", showRows);
    model.off("change:state", showState);
    model.off("change:omitted", showState);
    model.off("msg:custom", onMessage);
  };
}

export default { render };
