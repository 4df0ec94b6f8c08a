// The API reference: Swagger UI over /api/openapi.json, in the console's theme, with a search over all of an operation.
// The token stays in memory, and requests are sent without the session of whoever looks.

const dark = matchMedia("(prefers-color-scheme: dark)");

function showTheme() {
  const chosen = document.cookie.match(/(?:^|; )theme=(light|dark)/)?.[1];
  document.documentElement.classList.toggle("dark-mode", chosen ? chosen === "dark" : dark.matches);
  document.documentElement.style.colorScheme = chosen ?? "light dark";
}

showTheme();
dark.addEventListener("change", showTheme);

function opsFilter(tagged, phrase) {
  const words = String(phrase).toLowerCase().split(/\s+/).filter(Boolean);
  const isFound = (tag, each) => {
    const text = [tag, each.get("method"), each.get("path"), each.getIn(["operation", "summary"])].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  };
  return tagged
    .map((group, tag) => group.update("operations", (operations) => operations.filter((each) => isFound(tag, each))))
    .filter((group) => group.get("operations").size > 0);
}

// in place of Swagger UI's own field, which looks at the names of groups alone
function searching({ React: { createElement } }) {
  function FilterContainer({ layoutSelectors, layoutActions }) {
    const phrase = layoutSelectors.currentFilter();
    return createElement("div", { className: "search" },
      createElement("input", {
        type: "search",
        placeholder: "Search methods, addresses and summaries",
        "aria-label": "Search",
        value: typeof phrase === "string" ? phrase : "",
        onChange: (event) => layoutActions.updateFilter(event.target.value),
      }));
  }
  return { fn: { opsFilter }, components: { FilterContainer } };
}

// an answer's type leads to the row of its error; all other fragments are Swagger UI's
const error = location.hash.match(/^#(\w+)$/)?.[1];

SwaggerUIBundle({
  url: "/api/openapi.json",
  dom_id: "#reference",
  plugins: [searching],
  deepLinking: error === undefined,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  filter: true,
  tryItOutEnabled: true,
  validatorUrl: null,
  requestInterceptor(request) {
    if (!request.loadSpec) request.credentials = "omit";
    return request;
  },
  onComplete() {
    // what was above grew: whoever came for an error is taken there again
    if (error !== undefined) document.getElementById(error)?.scrollIntoView();
  },
});
