"use strict";
// Shows the records of a page, one row per field; its box on the page is highlighted with it.

function recordsOf(page) {
  return (page.records || []).map((n) => read(`r${n}`));
}

function showRecords(page, k) {
  const place = byId("text");
  recordsOf(page).forEach((record, n) => {
    place.append(recordCard(record, n, k));
    record.fields.forEach((field, j) => {
      const spot = field.box && field.page_number === page.page_number && percent(field.box, page.size);
      if (spot) byId("sheet").querySelector(".sheet")?.append(evidenceBox(field, spot, `r${n}-${j}`));
    });
  });
}

function percent([x1, y1, x2, y2], size) {
  if (!size) return null;
  const [width, height] = size;
  return [(100 * x1) / width, (100 * y1) / height, (100 * (x2 - x1)) / width, (100 * (y2 - y1)) / height];
}

function evidenceBox(field, [left, top, width, height], id) {
  const element = make("button", { class: "box evidence", type: "button", "data-label": field.path, "data-block": id, "aria-label": field.path });
  element.classList.toggle("at-top", top < 2.5);
  Object.assign(element.style, { left: `${left}%`, top: `${top}%`, width: `${width}%`, height: `${height}%`, zIndex: 3 });
  element.style.setProperty("--hue", hue("field"));
  return element;
}

function recordCard(record, n, k) {
  const errors = record.fields.reduce((sum, field) => sum + (field.errors?.length || 0), record.errors.length);
  const counts = [[errors, errors === 1 ? "error" : "errors"],
    [record.fields.filter((field) => field.unverified).length, "not on the page"],
    [record.fields.filter((field) => field.check_values).length, "not as the second model has it"]];
  const facts = counts.filter(([count]) => count).map(([count, words]) => `${count} ${words}`).join(", ");
  const badge = paint(make("span", { class: "badge" }, record.status), record.status);
  const head = make("header", {}, make("h3", {}, record.schema || "Record"), badge, make("span", { class: "quiet" }, facts));
  const card = make("section", { class: "record", "aria-label": "Record" }, head);
  if (record.error) card.append(paint(make("p", { class: "error" }, record.error, make("code", {}, ` ${record.error_code || ""}`)), record.status));
  for (const error of record.errors) card.append(errorNote(error));
  if (record.check_error) card.append(errorNote({ value: null, reason: `${record.check_model} could not check the record: ${record.check_error}` }));
  if (record.fields.length) card.append(make("table", {}, make("tbody", {}, ...record.fields.map((field, j) => fieldRow(field, `r${n}-${j}`, k)))));
  if (record.raw) card.append(make("details", { class: "raw" }, make("summary", {}, "The model's answer"), make("pre", {}, record.raw)));
  return card;
}

function fieldRow(field, id, k) {
  const cut = field.path.lastIndexOf(".") + 1;
  const name = make("th", { scope: "row" }, make("span", { class: "quiet" }, field.path.slice(0, cut)), field.path.slice(cut));
  const missing = field.value === null || field.value === undefined;
  const value = make("td", {}, make("span", { class: missing ? "quiet" : "value" }, missing ? "–" : field.value));
  for (const error of field.errors || []) value.append(errorNote(error));
  for (const other of field.check_values || []) value.append(errorNote({ value: other ?? "nothing", reason: "the second model" }));
  const row = make("tr", { "data-block": id, tabindex: "0", title: field.quote ? `On the page: ${field.quote}` : "" }, name, value, make("td", { class: "where" }, ...evidenceCells(field, k)));
  row.style.setProperty("--hue", hue("field"));
  row.classList.toggle("wrong", Boolean(field.errors));
  row.classList.toggle("unverified", Boolean(field.unverified));
  row.classList.toggle("boxed", Boolean(field.box) && field.page_number === run.pages[k].page_number);
  return row;
}

function errorNote(error) {
  const raw = error.value === null ? "" : make("code", {}, error.value);
  return make("p", { class: "error-note" }, raw, raw ? ": " : "", error.reason);
}

function evidenceCells(field, k) {
  if (field.unverified) return [make("span", { class: "mark", title: "The value was not found on the page" }, "not on the page")];
  const parts = [];
  const there = run.pages.findIndex((page) => page.doc_id === run.pages[k].doc_id && page.page_number === field.page_number);
  if (field.page_number && field.page_number !== run.pages[k].page_number) {
    parts.push(there < 0 ? `page ${field.page_number}` : make("button", { type: "button", "data-page": there }, `page ${field.page_number}`));
  }
  if (field.confidence !== undefined) {
    const parts_of = ["reading", "extraction"].filter((name) => field[name] !== undefined).map((name) => `, ${name} ${field[name].toFixed(2)}`);
    const words = `Found ${field.matched || ""}, confidence ${field.confidence.toFixed(2)}${parts_of.join("")}`;
    parts.push(make("span", { class: "quiet", title: words }, `${Math.round(100 * field.confidence)}%`));
  }
  return parts;
}

// For a field on another page: go there and highlight it.
function goToField(event) {
  const link = event.target.closest("[data-page]");
  if (!link) return false;
  const id = link.closest("[data-block]").dataset.block;
  const scrolled = byId("text").scrollTop;
  show(Number(link.dataset.page));
  byId("text").scrollTop = scrolled; // Keeps the row under the mouse, which would otherwise highlight another one.
  for (const element of document.querySelectorAll(`[data-block="${id}"]`)) element.classList.add("highlighted");
  document.querySelector(`.box[data-block="${id}"]`)?.scrollIntoView({ block: "center" });
  return true;
}
