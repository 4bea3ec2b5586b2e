// Passkeys: passes a form's data-options to the browser, puts the response into the form's hidden field and
// submits it. The page hides these forms; they are shown here if the browser supports passkeys.
"use strict";

const MESSAGES = {
  NotAllowedError: "No passkey was used. Try again when you are ready.",
  InvalidStateError: "This device has a passkey for your account already.",
  SecurityError: "This address cannot have passkeys. Use another way.",
};

function bytes(text) {
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(binary, (letter) => letter.charCodeAt(0));
}

function text(buffer) {
  const binary = Array.from(new Uint8Array(buffer), (byte) => String.fromCharCode(byte)).join("");
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function decoded(descriptors) {
  return (descriptors ?? []).map((each) => ({ ...each, id: bytes(each.id) }));
}

async function credentialFor(form) {
  const options = JSON.parse(form.dataset.options);
  const publicKey = { ...options, challenge: bytes(options.challenge) };
  const isNew = form.dataset.passkey === "create";
  if (isNew) {
    publicKey.user = { ...options.user, id: bytes(options.user.id) };
    publicKey.excludeCredentials = decoded(options.excludeCredentials);
  } else {
    publicKey.allowCredentials = decoded(options.allowCredentials);
  }
  const credential = await navigator.credentials[isNew ? "create" : "get"]({ publicKey });
  const result = credential.response;
  const response = { clientDataJSON: text(result.clientDataJSON) };
  if (isNew) {
    response.attestationObject = text(result.attestationObject);
    response.transports = result.getTransports?.() ?? [];
  } else {
    response.authenticatorData = text(result.authenticatorData);
    response.signature = text(result.signature);
    response.userHandle = result.userHandle ? text(result.userHandle) : null;
  }
  return JSON.stringify({
    id: credential.id,
    rawId: text(credential.rawId),
    type: credential.type,
    response,
  });
}

for (const form of window.PublicKeyCredential ? document.querySelectorAll("form[data-passkey]") : []) {
  const problem = form.querySelector("[data-problem]");
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = form.querySelector("button");
    problem.hidden = true;
    button.disabled = true;
    try {
      form.elements.credential.value = await credentialFor(form);
      form.submit();
    } catch (error) {
      problem.textContent = MESSAGES[error.name] ?? "That did not work in this browser. Use another way.";
      problem.hidden = false;
      button.disabled = false;
      button.focus();
    }
  });
  form.hidden = false;
  // The back/forward cache restores the page with the button disabled.
  addEventListener("pageshow", () => {
    form.querySelector("button").disabled = false;
  });
}
