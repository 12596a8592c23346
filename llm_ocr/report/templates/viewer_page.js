"use strict";
// Shows one page: header, problems, image with boxes, text with figures.

function show(k) {
  if (!(k >= 0 && k < run.pages.length)) return;
  byId(`t${current}`)?.removeAttribute("aria-current");
  current = k;
  byId(`t${k}`)?.setAttribute("aria-current", "page");
  byId(`t${k}`)?.scrollIntoView({ block: "nearest" });
  history.replaceState(null, "", `#p${k}`);
  const page = read(`p${k}`);
  const pictures = read(`i${k}`);
  showHead(page);
  showTrouble(page);
  showSheet(page, pictures.page);
  showText(page, pictures.figures, k);
  showTurns();
  markFound();
}

function showHead(page) {
  byId("page-name").textContent = page.page_number ? `${page.name}, page ${page.page_number}` : page.name;
  const facts = [page.model];
  if (page.attempts > 1) facts.push(`${page.attempts} attempts`);
  if (page.completion_tokens != null) facts.push(`${number.format(page.completion_tokens)} tokens`);
  if (page.seconds != null) facts.push(`${page.seconds.toFixed(1)} s`);
  if (page.finish_reason && page.finish_reason !== "stop") facts.push(`finish reason: ${page.finish_reason}`);
  byId("page-facts").textContent = facts.filter(Boolean).join(" · ");
  byId("page-name").title = page.source_uri || "";
  paint(byId("badge"), page.status).textContent = page.status;
}

function showTrouble(page) {
  const place = byId("trouble");
  place.replaceChildren();
  if (page.error || page.error_code) {
    const code = page.error_code ? make("code", {}, ` ${page.error_code}`) : "";
    place.append(paint(make("p", { class: "error" }, page.error || "No message was recorded.", code), page.status));
  }
  if (page.doubt) place.append(paint(make("p", { class: "error" }, `This page ${page.doubt}.`), page.status));
  if (page.missing?.length) {
    const items = page.missing.map((passage) => make("li", {}, passage));
    const title = "In the PDF's own text, but not in the model's answer:";
    place.append(make("div", { class: "missing" }, make("p", {}, title), make("ul", {}, ...items)));
  }
  if (page.notes?.length) {
    const items = page.notes.map((note) => make("li", {}, note));
    const title = `${items.length} ${items.length === 1 ? "note" : "notes"} on how the answer was read`;
    place.append(make("details", { class: "notes" }, make("summary", {}, title), make("ul", {}, ...items)));
  }
}

function showSheet(page, picture) {
  const place = byId("sheet");
  place.replaceChildren();
  place.scrollTop = 0;
  place.parentElement.classList.toggle("no-sheet", !picture);
  if (!picture) return;
  const image = make("img", { src: picture, alt: `Image of page ${page.page_number}` });
  const sheet = make("div", { class: "sheet" }, image);
  page.blocks.forEach((block, j) => {
    if (block.box) sheet.append(box(block, j));
  });
  place.append(sheet);
}

function box(block, j) {
  const [left, top, width, height] = block.box;
  const element = make("button", { class: "box", type: "button", "data-label": block.label, "data-block": j, "aria-label": block.label });
  element.classList.toggle("at-top", top < 2.5);
  Object.assign(element.style, { left: `${left}%`, top: `${top}%`, width: `${width}%`, height: `${height}%` });
  // A small box inside a large one stays clickable.
  element.style.zIndex = width * height < 400 ? 2 : 1;
  element.style.setProperty("--hue", hue(block.label));
  return element;
}

function showText(page, pictures, k) {
  const place = byId("text");
  place.replaceChildren();
  place.scrollTop = 0;
  showRecords(page, k);
  if (asMarkdown) {
    place.append(make("pre", {}, page.markdown || ""));
    return;
  }
  page.blocks.forEach((block, j) => {
    if (block.html || block.figure != null) place.append(blockElement(block, j, page, pictures));
  });
  if (place.querySelector(".block")) return;
  const words = { blank: "This page is blank.", failed: "This page has no text, because it failed." };
  place.append(make("p", { class: "empty" }, words[page.status] || "This page has no text."));
}

function blockElement(block, j, page, pictures) {
  const element = make("div", { class: "block", "data-block": j, title: block.label });
  element.style.setProperty("--hue", hue(block.label));
  element.classList.toggle("boxed", Boolean(block.box));
  element.classList.toggle("furniture", FURNITURE.has(block.label));
  element.classList.toggle("caption", block.label.endsWith("_caption"));
  if (block.figure != null) element.append(figure(page.figures[block.figure], pictures[block.figure]));
  if (block.html) element.append(safeContent(block.html));
  return element;
}

function safeContent(html) {
  const element = make("div", { class: "content" });
  element.innerHTML = html; // cleaned by nh3 when the file was written
  return element;
}

function figure(data, picture) {
  const element = make("figure");
  if (picture) element.append(make("img", { src: picture, alt: data.caption || data.name }));
  const caption = make("figcaption", {}, data.caption, data.caption ? " " : "", make("small", {}, data.name));
  element.append(caption);
  for (const description of data.descriptions) {
    const body = description.html ? safeContent(description.html) : make("div", { class: "empty" }, description.error);
    element.append(make("div", { class: "description" }, make("span", {}, description.task), body));
  }
  return element;
}

// ---- boxes and text highlight each other

function highlight(event) {
  const from = event.target.closest("[data-block]");
  for (const element of document.querySelectorAll(".highlighted")) element.classList.remove("highlighted");
  for (const element of linkedElements(from)) element.classList.add("highlighted");
}

function linkedElements(from) {
  return from ? document.querySelectorAll(`[data-block="${from.dataset.block}"]`) : [];
}

function scrollToLinked(event) {
  if (event.target.closest("a") || String(getSelection()) || goToField(event)) return;
  const from = event.target.closest("[data-block]");
  for (const element of linkedElements(from)) {
    if (element !== from) element.scrollIntoView({ block: "center", behavior: "smooth" });
  }
}
