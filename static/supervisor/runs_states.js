// Rows of runs that are not done yet: asked for by their ids, all in one question, while somebody looks.
import { poll } from "../console/polling.js";

const line = document.querySelector("[data-run-states]");
let seen = "";

function address() {
  const shown = [...document.querySelectorAll("[data-run-state]")].slice(0, 50);
  const ids = shown.map((one) => `id=${one.dataset.runState}`).join("&");
  return ids && `${line.dataset.runStates}?${ids}&seen=${seen}`;
}

function draw(answer) {
  const part = answer.querySelector("[data-states]");
  seen = part.dataset.seen;
  part.querySelectorAll("[data-of]").forEach((fresh) => {
    const state = document.adoptNode(fresh.firstElementChild);
    const rows = document.querySelectorAll(`[data-run-state="${fresh.dataset.of}"]`);
    rows.forEach((row) => row.replaceWith(state.cloneNode(true)));
  });
}

if (line) {
  poll({
    url: address,
    draw,
    line: () => line,
    over: "These states are no longer open to you. Load the page again to sign in.",
    away: "These states are as they were: Gatehouse does not answer. Asking again.",
  });
}
