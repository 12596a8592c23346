// The keyboard of the review pages. HTMX sends the forms of fields and swaps what comes back.
"use strict";

(() => {
  const main = document.querySelector("main.document");
  if (!main) return;
  const editable = "editable" in main.dataset;
  const base = `/review/documents/${main.dataset.document}`;
  const opened = Date.now();
  const fields = document.querySelector("#fields");
  let focused = Date.now();
  let pending = 0;
  let approving = false;
  let active = true;

  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const forms = () => all("form.field");
  const inputOf = (form) => form.querySelector("input[name=value]");
  const formOf = (element) => (element && element.closest ? element.closest("form.field") : null);
  const seconds = (since) => ((Date.now() - since) / 1000).toFixed(1);
  const say = (text) => { document.querySelector("#alert").textContent = text; };

  // Pages and boxes

  const pages = all(".page");
  let page = 0;
  const show = (image) => {
    image.setAttribute("href", image.dataset.href);
    image.removeAttribute("data-href");
  };
  // Crops and thumbnails load their page's image when they come into view.
  const visible = new IntersectionObserver((entries) => entries.forEach(({ target, isIntersecting }) => {
    if (!isIntersecting) return;
    visible.unobserve(target);
    all("image[data-href]", target).forEach(show);
    if (target.dataset.src) target.src = target.dataset.src;
  }));
  const watchImages = (within) => all("svg.crop, .thumbnails img", within).forEach((one) => visible.observe(one));

  function showPage(place) {
    if (place < 0 || place >= pages.length) return;
    page = place;
    pages.forEach((one, k) => one.toggleAttribute("hidden", k !== place));
    all(".thumbnails button").forEach((one, k) => {
      if (k !== place) one.removeAttribute("aria-current");
      else one.setAttribute("aria-current", "page");
      if (k === place) one.scrollIntoView({ block: "nearest", inline: "nearest" });
    });
    all("image[data-href]", pages[place]).forEach(show);
    loadWords(pages[place]);
    const { class: name, about } = pages[place].dataset;
    const known = name === undefined ? "" : `Class: ${name || "unknown"}${about ? ` (${about})` : ""}`;
    document.querySelector("#page-class").textContent = known;
    document.querySelector("#page-number").textContent = `Page ${place + 1} of ${pages.length}`;
  }

  // An edit may have changed where a field's value is.
  function moveBox(form) {
    const { box, page: number, estimated } = form.dataset;
    const old = document.querySelector(`rect[data-field="${form.id}"]`);
    const target = box && pages.find((one) => one.dataset.number === number && one.matches("svg"));
    if (!target) {
      if (old) old.remove();
      return;
    }
    const rect = old || document.createElementNS("http://www.w3.org/2000/svg", "rect");
    rect.dataset.field = form.id;
    rect.classList.toggle("estimated", estimated !== undefined);
    rect.classList.toggle("look", form.classList.contains("look"));
    setBox(rect, box.split(" ").map(Number), 3);
    target.append(rect);
    if (form.classList.contains("current")) light(form);
  }

  function setBox(rect, [left, top, right, bottom], margin) {
    const values = { x: left, y: top, width: right - left, height: bottom - top };
    const sizes = { x: -margin, y: -margin, width: 2 * margin, height: 2 * margin };
    Object.keys(values).forEach((name) => rect.setAttribute(name, values[name] + sizes[name]));
  }

  function light(form) {
    all("rect.lit").forEach((one) => one.classList.remove("lit"));
    const place = pages.findIndex((one) => one.dataset.number === form.dataset.page);
    if (place < 0) return;
    if (place !== page) showPage(place);
    const rect = pages[place].querySelector(`rect[data-field="${form.id}"]`);
    if (!rect) return;
    rect.classList.add("lit");
    rect.scrollIntoView({ block: "center", inline: "nearest" });
  }

  // A click on a box goes to its field; while fields are edited it takes the word, see below.
  document.addEventListener("click", (event) => {
    const rect = event.target.closest("rect[data-field]");
    if (rect && (!editable || event.shiftKey)) focus(document.getElementById(rect.dataset.field));
  });

  // Words: [text, left, top, right, bottom] in pixels of the page

  const wordsOf = new Map();
  function loadWords(svg) {
    if (!editable || !svg.matches("svg") || wordsOf.has(svg)) return;
    wordsOf.set(svg, []);
    fetch(`${base}/pages/${svg.dataset.number}/words`)
      .then((answer) => (answer.ok ? answer.json() : Promise.reject(new Error(answer.status))))
      .then((words) => { wordsOf.set(svg, words); svg.dataset.words = words.length; })
      .catch(() => { wordsOf.delete(svg); });
  }

  function pointOf(svg, event) {
    const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    return [x, y];
  }

  const areaOf = ([, left, top, right, bottom]) => (right - left) * (bottom - top);
  function wordAt(svg, [x, y]) {
    const under = ([, left, top, right, bottom]) => left <= x && x <= right && top <= y && y <= bottom;
    return wordsOf.get(svg).filter(under).sort((one, other) => areaOf(one) - areaOf(other))[0];
  }

  function wordsBetween(svg, [x1, y1], [x2, y2]) {
    const within = (at, one, other) => Math.min(one, other) <= at && at <= Math.max(one, other);
    return wordsOf.get(svg).filter(([, left, top, right, bottom]) => (
      within((left + right) / 2, x1, x2) && within((top + bottom) / 2, y1, y2)));
  }

  function mark(svg, name, box) {
    const old = svg.querySelector(`rect.${name}`);
    if (!box) {
      if (old) old.remove();
      return;
    }
    const rect = old || document.createElementNS("http://www.w3.org/2000/svg", "rect");
    rect.setAttribute("class", name);
    setBox(rect, box, 0);
    if (!old) svg.append(rect);
  }

  function fill(svg, words) {
    const form = document.querySelector("form.field.current");
    if (!form) {
      say("Choose a field first.");
      return;
    }
    const edges = [1, 2, 3, 4].map((k) => Math[k < 3 ? "min" : "max"](...words.map((word) => word[k])));
    inputOf(form).value = words.map(([text]) => text).join(" ").replace(/[,;:]+$/, "");
    form.querySelector("[name=place]").value = [svg.dataset.number, ...edges.map((edge) => Math.max(0, edge))].join(" ");
    inputOf(form).focus();
    send(form, "correct");
  }

  if (editable) {
    // Where the button was pressed: on which page, at which point, and at which place of the screen.
    let start = null;
    const isDrag = (event) => Math.hypot(event.clientX - start.x, event.clientY - start.y) > 4;
    const boxTo = ([x, y]) => [Math.min(start.at[0], x), Math.min(start.at[1], y), Math.max(start.at[0], x), Math.max(start.at[1], y)];
    const end = () => {
      if (start) mark(start.svg, "drag", null);
      start = null;
    };
    document.addEventListener("pointerdown", (event) => {
      const svg = event.target.closest("svg.page");
      if (!wordsOf.has(svg) || event.button !== 0 || event.shiftKey) return;
      start = { svg, at: pointOf(svg, event), x: event.clientX, y: event.clientY };
    });
    // The field keeps the focus.
    document.addEventListener("mousedown", (event) => {
      if (event.target.closest("svg.page")) event.preventDefault();
    });
    document.addEventListener("pointermove", (event) => {
      const svg = start ? start.svg : event.target.closest("svg.page");
      if (!wordsOf.has(svg)) return;
      const at = pointOf(svg, event);
      const word = start ? null : wordAt(svg, at);
      mark(svg, "hover", word && word.slice(1));
      if (start && isDrag(event)) mark(svg, "drag", boxTo(at));
    });
    document.addEventListener("pointerup", (event) => {
      if (!start) return;
      const { svg, at } = start;
      const word = wordAt(svg, at);
      const words = isDrag(event) ? wordsBetween(svg, at, pointOf(svg, event)) : [word].filter(Boolean);
      end();
      if (words.length) fill(svg, words);
      else focus(document.getElementById(event.target.dataset.field));
    });
    document.addEventListener("pointercancel", end);
  }

  // Fields

  function focus(form) {
    if (!form) return;
    inputOf(form).focus();
    form.scrollIntoView({ block: "nearest" });
  }

  function next(form) {
    const list = forms();
    const from = list.indexOf(form) + 1;
    const order = [...list.slice(from), ...list.slice(0, from - 1)];
    const found = order.find((one) => one.dataset.status === "unconfirmed");
    if (found) focus(found);
    else say("Everything is confirmed: Ctrl+Enter approves the document.");
  }

  function edit(input) {
    input.dataset.before = input.value;
    input.readOnly = false;
    input.select();
  }

  function send(form, action) {
    form.querySelector("[name=action]").value = action;
    form.querySelector("[name=seconds]").value = seconds(focused);
    inputOf(form).readOnly = true;
    // Until the response arrives, so that the next Enter doesn't return here.
    form.dataset.status = "sent";
    pending += 1;
    form.requestSubmit();
  }

  function post(path, values) {
    pending += 1;
    const version = document.querySelector("#version").value;
    htmx.ajax("POST", base + path, { source: fields, swap: "none", values: { version, ...values } });
  }

  function submit(form) {
    form.querySelector("[name=version]").value = document.querySelector("#version").value;
    form.querySelector("[name=seconds]").value = seconds(opened);
    form.requestSubmit();
  }

  function approve() {
    // Edits that are on their way come first.
    if (pending) approving = true;
    else submit(document.querySelector("#approve"));
  }

  const open = (id) => {
    const dialog = document.getElementById(id);
    dialog.showModal();
    const text = dialog.querySelector("textarea");
    if (text) text.focus();
  };

  const commands = {
    "[": () => showPage(page - 1),
    "]": () => showPage(page + 1),
    "?": () => open("help"),
  };
  function reclassify() {
    if (!pages.length) return;
    document.querySelector("#reclassify-page").textContent = `page ${pages[page].dataset.number}`;
    const input = document.querySelector("#class");
    input.value = pages[page].dataset.class || "";
    open("reclassify");
    input.select();
  }
  document.querySelector("#reclassify form").addEventListener("submit", (event) => {
    const { of, value } = event.target.elements;
    const number = pages[page].dataset.number;
    sessionStorage.setItem("page", page);
    post("/reclassify", { value: value.value, page: of.value === "page" ? number : "", seconds: seconds(focused) });
  });

  if (editable) {
    commands.c = reclassify;
    commands.u = () => post("/undo", {});
    commands.r = () => open("reject");
  }

  document.addEventListener("keydown", (event) => {
    active = true;
    if (document.querySelector("dialog[open]")) return;
    const form = formOf(event.target);
    const input = form && inputOf(form);
    const writing = input && !input.readOnly;
    const isButton = event.target.closest("button, a, summary, select, textarea");
    const run = (action) => { event.preventDefault(); action(); };
    if (event.key === "Enter" && event.ctrlKey && editable) {
      if (writing && input.value !== input.dataset.before) send(form, "correct");
      run(approve);
    } else if (event.key === "Enter" && form) {
      run(() => {
        if (event.shiftKey) focus(forms()[forms().indexOf(form) - 1]);
        else if (editable) {
          if (writing) send(form, "correct");
          else if (["unconfirmed", "empty"].includes(form.dataset.status)) send(form, "confirm");
          next(form);
        }
      });
    } else if (event.key === "Escape" && writing) {
      run(() => { input.value = input.dataset.before; input.readOnly = true; });
    } else if (writing || event.ctrlKey || event.altKey || event.metaKey) {
      return;
    } else if (form && editable && (event.key === "e" || event.key === "F2")) {
      run(() => edit(input));
    } else if (form && editable && event.key === "x") {
      run(() => { send(form, "absent"); next(form); });
    } else if (commands[event.key] && !(isButton && event.key === " ")) {
      run(commands[event.key]);
    }
  });

  document.addEventListener("focusin", (event) => {
    const form = formOf(event.target);
    if (!form) return;
    focused = Date.now();
    all("form.field.current").forEach((one) => one.classList.remove("current"));
    form.classList.add("current");
    light(form);
  });
  document.addEventListener("dblclick", (event) => {
    const form = formOf(event.target);
    if (form && editable) edit(inputOf(form));
  });
  document.addEventListener("mousemove", () => { active = true; });
  document.addEventListener("submit", (event) => {
    const version = event.target.querySelector("[name=version]");
    if (version) version.value = document.querySelector("#version").value;
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const { key, remove, add, record, show: place } = button.dataset;
    if ("close" in button.dataset) button.closest("dialog").close();
    else if (key) commands[key]();
    else if (place) showPage(Number(place));
    else if (remove) post("/edit", { record, path: remove, action: "absent" });
    else if (add) {
      sessionStorage.setItem("focus", add);
      post("/edit", { record, path: add, action: "correct" });
    }
  });

  // Requests

  document.addEventListener("htmx:load", (event) => {
    watchImages(event.target);
    if (event.target.matches("form.field")) moveBox(event.target);
  });
  document.addEventListener("htmx:configRequest", (event) => {
    event.detail.headers["X-CSRF-Token"] = document.body.dataset.csrf;
    // Requests wait for each other: the version is that of the last response.
    event.detail.parameters.version = document.querySelector("#version").value;
  });
  document.addEventListener("htmx:oobBeforeSwap", (event) => {
    // Nobody loses what they are typing.
    const input = document.activeElement;
    if (formOf(input) === event.detail.target && !input.readOnly) event.detail.shouldSwap = false;
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    pending = Math.max(0, pending - 1);
    const { xhr, successful } = event.detail;
    if (!successful) {
      approving = false;
      let text = "The gateway doesn't respond. Nothing was saved.";
      if (xhr && (xhr.getResponseHeader("Content-Type") || "").includes("problem")) {
        text = JSON.parse(xhr.responseText).detail;
      } else if (xhr && xhr.status === 422) {
        text = "This value was not accepted: see its field.";
      }
      say(text);
    } else if (!approving) {
      say("");
    }
    if (approving && !pending) {
      approving = false;
      submit(document.querySelector("#approve"));
    }
  });

  if (editable) {
    setInterval(() => {
      if (!active || document.hidden) return;
      active = false;
      const headers = { "X-CSRF-Token": document.body.dataset.csrf, "HX-Request": "true" };
      fetch(`${base}/renew`, { method: "POST", headers }).then(async (answer) => {
        if (!answer.ok) say((await answer.json()).detail);
      }).catch(() => {});
    }, Number(main.dataset.renew) * 1000);
  }

  if (editable) main.classList.add("editable");
  showPage(0);
  const lastPage = sessionStorage.getItem("page");
  sessionStorage.removeItem("page");
  const wanted = sessionStorage.getItem("focus");
  sessionStorage.removeItem("focus");
  const first = forms().find((one) => wanted && one.dataset.path.startsWith(`${wanted}.`))
    || forms().find((one) => one.dataset.status === "unconfirmed" && one.classList.contains("look"))
    || forms().find((one) => one.dataset.status === "unconfirmed");
  if (editable) focus(first);
  if (lastPage !== null) showPage(Number(lastPage));
})();
