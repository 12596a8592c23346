// The status board says so when its numbers are old. HTMX refreshes it.
"use strict";

document.addEventListener("htmx:afterRequest", (event) => {
  const at = document.querySelector("#at");
  if (!at) return;
  const text = `The gateway doesn't respond. These numbers are those of ${at.textContent}.`;
  document.querySelector("#alert").textContent = event.detail.successful ? "" : text;
});
