/* What makes the flame graph of svg.c answer: zoom, search, tooltips and keys.
 *
 * The file holds every node as columns of numbers (in <metadata>), and a still picture
 * for viewers that run no scripts, which is replaced here. Only boxes that are wide
 * enough to be seen are drawn, so that a million nodes are no more work than a screen
 * full, and zooming in draws what was too narrow before.
 *
 * A node's number is larger than its parent's, and of siblings the longest comes first;
 * so one pass from the start hands out places, and one from the end adds up times. */
"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const ROW = 18; // pixels; this, HEAD and LETTER are svg.c's, too
  const HEAD = 52;
  const LETTER = 7.25; // of 12 px monospace
  const NARROWEST = 0.4; // a box less wide cannot be seen
  const svg = document.documentElement;
  const data = JSON.parse(document.getElementById("data").textContent);
  const { names, parent, name, self, calls } = data;
  const count = parent.length;
  const boxes = document.getElementById("boxes");
  const status = document.getElementById("status");
  const found = document.getElementById("found");
  const input = document.getElementById("search");
  const total = Float64Array.from(self);
  const start = new Float64Array(count);
  const depth = new Uint32Array(count);
  const isHit = new Uint8Array(names.length);
  let zoomed = 0;
  let chosen = 0;
  let width = 1200;

  for (let i = count - 1; i > 0; i--) total[parent[i]] += total[i];
  const next = new Float64Array(count);
  for (let i = 1; i < count; i++) {
    const p = parent[i];
    depth[i] = depth[p] + 1;
    start[i] = next[i] = next[p];
    next[p] += total[i];
  }

  function time(ns) {
    for (const [size, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "us"]])
      if (ns >= size) return `${Number((ns / size).toPrecision(3))} ${unit}`;
    return `${ns} ns`;
  }

  function share(ns) {
    return total[0] > 0 ? `${((100 * ns) / total[0]).toFixed(1)} %` : "0 %";
  }

  function describe(i) {
    const [label, place] = names[name[i]];
    const parts = [label + (place ? ` (${place})` : "")];
    parts.push(`total ${time(total[i])}, ${share(total[i])}`);
    if (i > 0) parts.push(`self ${time(self[i])}`);
    if (calls && i > 0)
      parts.push(`${calls[i].toLocaleString("en")} ${calls[i] === 1 ? "call" : "calls"}`);
    return parts.join(" · ");
  }

  function isWithin(i, outer) {
    while (i > outer) i = parent[i];
    return i === outer;
  }

  function element(tag, attributes) {
    const made = document.createElementNS(SVG, tag);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    return made;
  }

  function box(i, x, w, faded) {
    const [label, , colour] = names[name[i]];
    const y = HEAD + depth[i] * ROW;
    const g = element("g", { class: "box", "data-node": i });
    const rect = element("rect", { x, y, width: w, height: ROW - 1, fill: colour });
    const title = element("title", {});
    const letters = Math.floor((w - 6) / LETTER);
    title.textContent = describe(i);
    g.append(title, rect);
    if (isHit[name[i]]) g.classList.add("hit");
    if (faded) g.classList.add("above");
    if (i === chosen) g.classList.add("chosen");
    if (letters >= 2) {
      const text = element("text", { x: x + 3, y: y + 13 });
      text.textContent =
        label.length <= letters ? label : label.slice(0, letters - 1) + "…";
      g.append(text);
    }
    return g;
  }

  /* What is deeper than the zoomed node and starts and ends inside it is under it. */
  function draw() {
    const scale = total[zoomed] > 0 ? width / total[zoomed] : 0;
    const from = start[zoomed];
    const to = from + total[zoomed];
    const above = new Set();
    const drawn = document.createDocumentFragment();
    let deepest = 0;
    for (let z = zoomed; z > 0; ) above.add((z = parent[z]));
    for (let i = 0; i < count; i++) {
      const under =
        depth[i] > depth[zoomed] && start[i] >= from && start[i] + total[i] <= to;
      if (above.has(i)) {
        drawn.append(box(i, 0, width, true));
      } else if (i === zoomed) {
        drawn.append(box(i, 0, width, false));
      } else if (under && total[i] * scale >= NARROWEST) {
        drawn.append(box(i, (start[i] - from) * scale, total[i] * scale, false));
      } else {
        continue;
      }
      deepest = Math.max(deepest, depth[i]);
    }
    boxes.replaceChildren(drawn);
    const height = HEAD + (deepest + 1) * ROW + 8;
    svg.setAttribute("width", width);
    svg.setAttribute("height", height);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    document.getElementById("place").setAttribute("x", width - 240);
    found.setAttribute("x", width - 10);
  }

  /* What the mouse or the keys are on, or else what is zoomed. */
  function say(i) {
    status.textContent = describe(i === undefined ? zoomed : i);
  }

  function zoom(i) {
    zoomed = chosen = i;
    draw();
    say();
  }

  function choose(i) {
    chosen = i;
    while (!isWithin(i, zoomed)) zoomed = parent[zoomed];
    if (total[i] * width < NARROWEST * total[zoomed]) zoomed = parent[i];
    draw();
    say(i);
  }

  /* Times of nodes inside other hits are in those already. */
  function search(text) {
    let pattern = null;
    found.textContent = "";
    isHit.fill(0);
    if (text) {
      try {
        pattern = new RegExp(text, "i");
      } catch {
        pattern = new RegExp(text.replace(/[^\w\s]/g, "\\$&"), "i");
      }
      names.forEach(([label, place], n) => {
        isHit[n] = pattern.test(label) || pattern.test(place) ? 1 : 0;
      });
      const isInside = new Uint8Array(count);
      let nodes = 0;
      let ns = 0;
      for (let i = 1; i < count; i++) {
        const hit = isHit[name[i]];
        nodes += hit;
        if (hit && !isInside[parent[i]]) ns += total[i];
        isInside[i] = hit | isInside[parent[i]];
      }
      isHit[name[0]] = 0;
      found.textContent = `${nodes.toLocaleString("en")} found · ${time(ns)}, ${share(ns)}`;
    }
    draw();
  }

  function sibling(i, step) {
    for (let k = i + step; k > 0 && k < count; k += step)
      if (parent[k] === parent[i]) return k;
    return i;
  }

  function firstChild(i) {
    const child = parent.indexOf(i, i + 1);
    return child < 0 ? i : child;
  }

  const keys = {
    ArrowUp: () => choose(chosen > 0 ? parent[chosen] : 0),
    ArrowDown: () => choose(firstChild(chosen)),
    ArrowLeft: () => choose(sibling(chosen, -1)),
    ArrowRight: () => choose(sibling(chosen, 1)),
    Enter: () => zoom(chosen),
    Backspace: () => zoom(zoomed > 0 ? parent[zoomed] : 0),
    Escape: () => zoom(0),
    "/": () => input.focus(),
  };

  function nodeOf(event) {
    const g = event.target.closest?.(".box");
    return g ? Number(g.dataset.node) : undefined;
  }

  svg.addEventListener("click", (event) => {
    const i = nodeOf(event);
    if (i !== undefined) zoom(i);
  });
  svg.addEventListener("mouseover", (event) => say(nodeOf(event)));
  input.addEventListener("input", () => search(input.value));
  document.addEventListener("keydown", (event) => {
    if (event.target === input) {
      if (event.key === "Escape") {
        input.value = "";
        search("");
      }
      if (event.key === "Escape" || event.key === "Enter") input.blur();
    } else if (keys[event.key] && !event.ctrlKey && !event.metaKey && !event.altKey) {
      keys[event.key]();
      event.preventDefault();
    }
  });
  function resize() {
    width = Math.max(600, document.defaultView.innerWidth - 2);
    draw();
  }
  document.defaultView.addEventListener("resize", resize);
  document.getElementById("place").removeAttribute("visibility");
  resize();
  say();
})();
