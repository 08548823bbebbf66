// Hover and zoom for the chart of a kernel. Without this script the chart and its table say the same.
"use strict";
(() => {
  const figure = document.getElementById("chart");
  const plot = figure && figure.querySelector("svg.plot");
  if (!plot) return;
  const NS = "http://www.w3.org/2000/svg";
  const [, , WIDTH, HEIGHT] = plot.getAttribute("viewBox").split(" ").map(Number);
  const LEAST = WIDTH / 200;
  const field = figure.querySelector("svg.field");
  const ticks = field.querySelector(".ticks-x");
  const left = Number(plot.getAttribute("x"));
  const dots = [...plot.querySelectorAll("path.dot")].map((element) => {
    const [x, y] = element.getAttribute("d").slice(1, -2).split(" ").map(Number);
    return { element, x, y, text: element.textContent, link: element.closest("a") };
  });
  if (!dots.length) return;
  // The browser's own hint would come on top of this one.
  for (const dot of dots) dot.element.querySelector("title").remove();

  const hint = document.createElement("p");
  hint.className = "hint";
  const coarse = window.matchMedia("(pointer: coarse)").matches;
  hint.textContent = coarse ? "Tap a point to read it." : "Drag over the chart to zoom; double-click to see all.";
  figure.append(hint);
  const pane = figure.querySelector(".scroll");
  pane.scrollLeft = pane.scrollWidth; // on a narrow screen the newest commits are seen first
  const cursor = document.createElementNS(NS, "line");
  cursor.setAttribute("class", "cursor");
  cursor.setAttribute("y1", "0");
  cursor.setAttribute("y2", String(HEIGHT));
  const area = document.createElementNS(NS, "rect");
  area.setAttribute("class", "selection");
  area.setAttribute("y", "0");
  area.setAttribute("height", String(HEIGHT));
  area.setAttribute("width", "0");
  cursor.setAttribute("visibility", "hidden");
  plot.append(area, cursor);

  let view = [0, WIDTH];
  let from = null;

  const place = (event) => {
    const box = plot.getBoundingClientRect();
    // Browsers differ in what box a nested svg has, so it is taken from the outer one.
    const outer = field.getBoundingClientRect();
    const scale = outer.width / field.viewBox.baseVal.width;
    const share = (event.clientX - outer.left) / (WIDTH * scale);
    const down = (event.clientY - outer.top - Number(plot.getAttribute("y")) * scale) / (HEIGHT * scale);
    return box.width || box.height
      ? { x: view[0] + Math.min(1, Math.max(0, share)) * (view[1] - view[0]), y: down * HEIGHT }
      : null;
  };

  const nearest = (at) => {
    const stretch = WIDTH / (view[1] - view[0]);
    let best = null;
    let least = Infinity;
    for (const dot of dots) {
      if (dot.x < view[0] || dot.x > view[1]) continue;
      // Along the axis first, then the line that is nearer.
      const distance = Math.abs(dot.x - at.x) * stretch * 4 + Math.abs(dot.y - at.y) / 4;
      if (distance < least) [best, least] = [dot, distance];
    }
    return best;
  };

  const show = (dot) => {
    if (!dot) return;
    cursor.setAttribute("visibility", "visible");
    cursor.setAttribute("x1", String(dot.x));
    cursor.setAttribute("x2", String(dot.x));
    hint.textContent = dot.text;
  };

  const label = () => {
    const seen = new Map();
    for (const dot of dots) if (dot.x >= view[0] && dot.x <= view[1]) seen.set(dot.x, dot.text.split(" · ")[1]);
    const places = [...seen.keys()].sort((one, other) => one - other);
    const step = Math.max(1, Math.ceil(places.length / 6));
    ticks.replaceChildren();
    places.forEach((x, number) => {
      if (number % step) return;
      const text = document.createElementNS(NS, "text");
      text.setAttribute("class", "tick");
      const at = ((x - view[0]) / (view[1] - view[0])) * WIDTH;
      text.setAttribute("x", String(left + at));
      text.setAttribute("y", "330");
      text.setAttribute("text-anchor", !number ? "start" : at > 760 ? "end" : "middle");
      text.textContent = seen.get(x);
      ticks.append(text);
    });
  };

  const zoom = (start, end) => {
    view = end - start < LEAST ? view : [Math.max(0, start), Math.min(WIDTH, end)];
    plot.setAttribute("viewBox", `${view[0]} 0 ${view[1] - view[0]} ${HEIGHT}`);
    label();
  };

  field.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.pointerType === "touch") return;
    from = place(event);
    event.preventDefault(); // no link or text is dragged
  });
  field.addEventListener("pointermove", (event) => {
    const at = place(event);
    if (!at) return;
    show(nearest(at));
    if (!from) return;
    area.setAttribute("x", String(Math.min(from.x, at.x)));
    area.setAttribute("width", String(Math.abs(from.x - at.x)));
  });
  window.addEventListener("pointerup", (event) => {
    if (!from) return;
    const at = place(event);
    const start = from;
    from = null;
    area.setAttribute("width", "0");
    if (at && Math.abs(at.x - start.x) > (view[1] - view[0]) / 100) zoom(Math.min(start.x, at.x), Math.max(start.x, at.x));
  });
  field.addEventListener("dblclick", () => zoom(0, WIDTH));
  // A tap on a phone shows what is near; the table has the links.
  field.addEventListener("click", (event) => {
    const at = place(event);
    if (at) show(nearest(at));
  });
})();
