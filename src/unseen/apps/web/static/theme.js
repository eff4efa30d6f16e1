// Before anything is drawn, so that a stored choice does not flash: this file is loaded without `defer`.
(() => {
  try {
    const stored = localStorage.getItem("unseen-theme");
    if (stored === "light" || stored === "dark") document.documentElement.dataset.theme = stored;
  } catch {
    // Storage may be forbidden: the system's colours are used.
  }
})();
