// Renders the OpenAPI description of this server.

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", follow);
follow();

// People paste a token of their own here. The OAuth flow needs a registered client, and this page is none.
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
  // Requests go to the origin of this page, whatever its name.
  spec: { ...spec, servers: [{ url: window.location.origin }] },
  dom_id: "#description",
  plugins: [tokensOnly],
  presets: [SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
  deepLinking: true,
  displayRequestDuration: true,
  defaultModelsExpandDepth: 0,
});
