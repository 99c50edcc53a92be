// A task or a delivery as it goes on: its page is asked for again while somebody looks, and says when nothing is new.
import { poll } from "../console/polling.js";

const one = (query, root = document) => root.querySelector(query);
const strip = () => one('[data-fresh="strip"]');

function address() {
  const { url, seen } = strip().dataset;
  return url && `${url}?seen=${encodeURIComponent(seen)}`;
}

function draw(fresh) {
  fresh.querySelectorAll("[data-fresh]").forEach((part) => replace(document.adoptNode(part)));
}

function replace(fresh) {
  const old = one(`[data-fresh="${fresh.dataset.fresh}"]`);
  if (!old) return;
  const at = old.contains(document.activeElement) ? document.activeElement.textContent.trim() : "";
  // What is being read is not shut in somebody's face.
  old.querySelectorAll("details[open][id]").forEach(({ id }) => {
    const same = one(`#${CSS.escape(id)}`, fresh);
    if (same) same.open = true;
  });
  old.replaceWith(fresh);
  if (!at) return;
  const controls = [...fresh.querySelectorAll("a, button, summary, [tabindex]")];
  (controls.find((each) => each.textContent.trim() === at) || controls[0])?.focus();
}

if (strip()?.dataset.url) {
  poll({
    url: address,
    draw,
    line: () => one("[data-said]"),
    over: "This is no longer open to you. Load the page again to sign in.",
    away: "This is as it was: Gatehouse does not answer. Asking again.",
  });
}
