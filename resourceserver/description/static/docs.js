// Shows the description of the service, as this server gives it.

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", follow);
follow();

// Who tries a request out here pastes a token of their own. The way of an application leads through
// a registration, which this page has not.
const tokensOnly = () => ({
  statePlugins: {
    auth: {
      wrapSelectors: {
        definitionsToAuthorize: (original) => (...given) =>
          original(...given).filter((schemes) => !schemes.has("oauth")),
      },
    },
  },
});

const answer = await fetch("/openapi.json");
const spec = await answer.json();

SwaggerUIBundle({
  // Requests go to where this page came from, under whatever name that was reached.
  spec: { ...spec, servers: [{ url: window.location.origin }] },
  dom_id: "#description",
  plugins: [tokensOnly],
  presets: [SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
  deepLinking: true,
  displayRequestDuration: true,
  defaultModelsExpandDepth: 0,
});
