// Colours of edges and nodes, for a light and a dark page. Index 0: nothing happens there.
const LOAD = {
  light: ["#c9d2dd", "#9cc3e6", "#5aa2d8", "#2f7fc1", "#3f8f4f", "#a9a227", "#e08a1e", "#d4302f"],
  dark: ["#2b3847", "#2e5878", "#3678a8", "#4a9fdc", "#58b26b", "#c9c24a", "#f0a04a", "#ff6464"],
};
const FINDING = { light: ["#d5dbe3", "#3c6ea8", "#b06a00", "#c62f2f"], dark: ["#263341", "#86b6ee", "#f0b35a", "#ff7a7a"] };
export const NODE = {
  light: ["#10233d", "#5d7fa8", "#8a5fbf"], dark: ["#dbe7f7", "#7e9fc6", "#b79bea"],
};
export const MARK = { light: "#d6008f", dark: "#ff62c8" };

export const theme = () => document.documentElement.dataset.theme === "dark" ? "dark" : "light";
export const steps = (by) => (by === "findings" ? FINDING : LOAD)[theme()];
export const step = (by, value) => by === "findings" ? value : value === 0 ? 0 : 1 + Math.min(6, Math.floor(value * 7 / 256));
export const severity = (worst) => FINDING[theme()][worst];
