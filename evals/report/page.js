"use strict";
(() => {
  const make = (tag, text, attributes = {}) => {
    const element = document.createElement(tag);
    if (text) element.textContent = text;
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };

  // Points of a figure: by pointer, and by arrow keys once the figure has the focus; what is shown is said too.
  for (const figure of document.querySelectorAll("figure")) {
    const points = [...figure.querySelectorAll("[data-tip]")];
    const plot = figure.querySelector(".plot");
    if (!points.length || !plot) continue;
    const title = figure.querySelector("figcaption").textContent;
    plot.tabIndex = 0;
    plot.setAttribute("role", "group");
    plot.setAttribute("aria-label", `${title}: ${points.length} points, arrow keys go from one to the next`);
    const said = make("output", "Point at a mark, or use the arrow keys.", { class: "said", "aria-live": "polite" });
    plot.after(said);
    let at = -1;
    const show = (index) => {
      if (at >= 0) points[at].classList.remove("now");
      at = index;
      points[at].classList.add("now");
      said.textContent = points[at].dataset.tip;
    };
    points.forEach((point, index) => {
      point.addEventListener("pointerenter", () => show(index));
      point.addEventListener("click", () => show(index));
    });
    plot.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      const end = { Home: 0, End: points.length - 1 }[event.key];
      if (step === undefined && end === undefined) return;
      event.preventDefault();
      const seen = (index) => !points[index].closest("[hidden]");
      let next = end === undefined ? (at + step + points.length) % points.length : end;
      for (let tries = points.length; tries && !seen(next); tries--) next = (next + (step || 1) + points.length) % points.length;
      show(next);
    });
    const series = [...figure.querySelectorAll("[data-series]")];
    if (series.length < 2) continue;
    const keys = make("div", "", { class: "keys", role: "group", "aria-label": "Series shown" });
    const names = [...new Set([...figure.querySelectorAll("details tbody th")].map((cell) => cell.textContent))];
    series.forEach((group, index) => {
      const key = make("button", names[index] || `series ${index + 1}`, { type: "button", "aria-pressed": "true" });
      key.addEventListener("click", () => {
        const on = key.getAttribute("aria-pressed") === "false";
        key.setAttribute("aria-pressed", String(on));
        group.toggleAttribute("hidden", !on);
        group.style.display = on ? "" : "none";
      });
      keys.append(key);
    });
    plot.before(keys);
  }

  // Tables: a click on a column sorts by it; long ones can be searched.
  const value = (row, column) => {
    const text = row.cells[column].textContent.trim();
    const found = /^[-+]?[0-9.]+(e[-+]?[0-9]+)?/i.exec(text);
    return found ? Number(found[0]) : text.toLowerCase();
  };
  const before = (a, b) => (typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1);
  for (const table of document.querySelectorAll("table.data")) {
    const body = table.tBodies[0];
    if (body.rows.length < 2) continue;
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = make("button", head.textContent, { type: "button" });
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const rows = [...body.rows].sort((a, b) => before(value(a, column), value(b, column)) * (up ? 1 : -1));
        body.append(...rows);
      });
    });
    if (body.rows.length < 12) continue;
    const find = make("input", "", { type: "search", class: "find", placeholder: "Find a row", "aria-label": `Find a row in: ${table.caption.textContent}` });
    find.addEventListener("input", () => {
      const wanted = find.value.toLowerCase();
      for (const row of body.rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    });
    table.parentElement.before(find);
  }

  // The explorer: what a threshold would do on these items, and how many flags would be right at another prevalence.
  const share = (x) => (100 * x).toFixed(1) + " %";
  for (const box of document.querySelectorAll(".explorer")) {
    const curves = JSON.parse(box.dataset.curves);
    const which = make("select");
    for (const name of Object.keys(curves)) which.append(make("option", name));
    const slider = make("input", "", { type: "range", min: "0", step: "1" });
    const common = make("select");
    for (const part of [0.5, 0.1, 0.01, 0.001]) common.append(make("option", share(part), { value: String(part) }));
    const said = make("output", "", { class: "said", "aria-live": "polite" });
    const labels = [["Supervisor", which], ["Threshold: flag if the score is at least this", slider], ["Share of harmful requests in your traffic", common]];
    box.append(make("strong", "Try a threshold"));
    for (const [text, control] of labels) {
      const label = make("label", text + " ");
      label.append(control);
      box.append(label);
    }
    box.append(said);
    const figure = document.getElementById(box.dataset.figure);
    const dot = document.createElementNS("http://www.w3.org/2000/svg", "circle");
    dot.setAttribute("r", "8");
    dot.setAttribute("fill", "none");
    dot.setAttribute("stroke", "currentColor");
    dot.setAttribute("stroke-width", "3");
    if (figure) figure.querySelector("svg").append(dot);
    const show = () => {
      const [harmful, benign, steps] = curves[which.value];
      const [threshold, tp, fp] = steps[Number(slider.value)];
      const [dr, fpr, part] = [tp / harmful, fp / benign, Number(common.value)];
      const flagged = dr * part + fpr * (1 - part);
      const precision = flagged ? share((dr * part) / flagged) : "none flagged";
      said.textContent = `Score ≥ ${threshold.toPrecision(4)}: detects ${share(dr)} (${tp} of ${harmful}), flags ${share(fpr)} of benign requests (${fp} of ${benign}); of the flags in your traffic ${precision} would be right. Chosen on the items it is measured on: test it on others.`;
      slider.setAttribute("aria-valuetext", `threshold ${threshold.toPrecision(4)}, detects ${share(dr)}, false positives ${share(fpr)}`);
      dot.setAttribute("cx", String(56 + 404 * fpr));
      dot.setAttribute("cy", String(314 - 300 * dr));
    };
    const reset = () => {
      const steps = curves[which.value][2];
      slider.max = String(steps.length - 1);
      slider.value = String(Math.floor(steps.length / 2));
      show();
    };
    which.addEventListener("change", reset);
    slider.addEventListener("input", show);
    common.addEventListener("change", show);
    reset();
  }
})();
