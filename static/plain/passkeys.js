// Forms with data-passkey ask the browser for a credential before they are sent: add, sign-in or prove.
"use strict";
(function () {
  const sentences = {
    NotAllowedError: "The browser stopped: you cancelled, or it took too long. Try again.",
    InvalidStateError: "This device has a passkey for you already.",
    SecurityError: "Passkeys do not work at this address. Open Gatehouse by its name, not by a number.",
  };

  function options(form) {
    return JSON.parse(document.getElementById(form.dataset.options).textContent);
  }

  async function add(form) {
    const { creation_options: wanted } = options(form);
    const alone = form.elements.passwordless.checked;
    const selection = wanted.publicKey.authenticatorSelection || {};
    const how = { residentKey: alone ? "required" : "discouraged", requireResidentKey: alone };
    wanted.publicKey.authenticatorSelection = { ...selection, ...how, ...(alone ? { userVerification: "required" } : {}) };
    return webauthnJSON.create(wanted);
  }

  async function signIn(form) {
    const answer = await fetch(form.action, { headers: { Accept: "application/json" } });
    if (!answer.ok) {
      throw new Error("unavailable");
    }
    return webauthnJSON.get((await answer.json()).request_options);
  }

  const ways = { add, "sign-in": signIn, prove: (form) => webauthnJSON.get(options(form).request_options) };

  async function ask(event) {
    event.preventDefault();
    const form = event.target;
    const problem = form.querySelector("[data-passkey-problem]");
    problem.hidden = true;
    try {
      form.elements.credential.value = JSON.stringify(await ways[form.dataset.passkey](form));
    } catch (error) {
      problem.textContent = sentences[error.name] || "The passkey could not be read. Try again.";
      problem.hidden = false;
      return;
    }
    form.submit();
  }

  if (window.PublicKeyCredential) {
    for (const form of document.querySelectorAll("form[data-passkey]")) {
      form.hidden = false;
      form.addEventListener("submit", ask);
    }
  }
})();
