// Light or dark: a cookie, so that the server sends the page in the chosen theme and nothing flashes.

const YEAR_S = 365 * 24 * 3600;

function current() {
  const chosen = document.documentElement.dataset.theme;
  return chosen || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

function say(button) {
  button.textContent = current() === "dark" ? button.dataset.wordLight : button.dataset.wordDark;
}

export function startTheme() {
  const buttons = document.querySelectorAll("[data-theme-switch]");
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => buttons.forEach(say));
  for (const button of buttons) {
    say(button);
    button.addEventListener("click", (event) => {
      event.preventDefault();
      const theme = current() === "dark" ? "light" : "dark";
      document.documentElement.dataset.theme = theme;
      document.cookie = `theme=${theme}; path=/; max-age=${YEAR_S}; samesite=lax`;
      say(button);
      for (const each of document.querySelectorAll(".preference [name=theme]")) {
        each.ariaPressed = String(each.value === theme);
      }
    });
  }
}
