// The theme: the system's, until the switch chooses one. This file runs before the first picture.

const NAME = "crosshead.theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

/** Return a value that this browser has kept, or null where it keeps none; `area` is a storage. */
export function stored(name, area = "localStorage") {
  try {
    return window[area].getItem(name);
  } catch {
    return null;
  }
}

/** Keep a value in this browser, if it allows that. */
export function store(name, value, area = "localStorage") {
  try {
    window[area].setItem(name, value);
  } catch {
    // A private window may refuse. The page works without it.
  }
}

function isDark() {
  const chosen = stored(NAME) ?? document.documentElement.dataset.theme;
  return chosen === undefined ? dark.matches : chosen === "dark";
}

function show() {
  const chosen = stored(NAME);
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
}

/** Make a button the switch between light and dark; its label is the theme that it chooses. */
export function wireTheme(button) {
  const label = () => (button.textContent = isDark() ? "Light theme" : "Dark theme");
  button.addEventListener("click", () => {
    const next = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    store(NAME, next);
    label();
  });
  dark.addEventListener("change", label);
  label();
}

show();
