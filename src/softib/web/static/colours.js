// Colours of edges and nodes, for a light and a dark page. Index 0: nothing happens there.
const LOAD = {
  light: ["#b4c0ce", "#8dbbe4", "#5aa2d8", "#2f7fc1", "#3f8f4f", "#a9a227", "#e08a1e", "#d4302f"],
  dark: ["#46566b", "#3f7096", "#3f88bd", "#4a9fdc", "#58b26b", "#c9c24a", "#f0a04a", "#ff6464"],
};
const FINDING = { light: ["#b4c0ce", "#3c6ea8", "#955900", "#c62f2f"], dark: ["#46566b", "#86b6ee", "#f0b35a", "#ff7a7a"] };
export const NODE = {
  light: ["#10233d", "#5d7fa8", "#8a5fbf"], dark: ["#dbe7f7", "#7e9fc6", "#b79bea"],
};
export const MARK = { light: "#d6008f", dark: "#ff62c8" };

export const DOWN = { light: "#000000", dark: "#ffffff" };
// Jobs in turn have these; what several share has the last.
const JOB = {
  light: ["#c0cad5", "#1f77b4", "#2ca02c", "#9467bd", "#8c564b", "#17a2b8", "#bcaa22", "#e377c2", "#5b6777", "#d4302f"],
  dark: ["#46566b", "#5aa7e0", "#62c462", "#b79bea", "#c49a8c", "#4fd0e0", "#d8cd5a", "#f2a3d8", "#9aa8b9", "#ff6464"],
};
export const SHARED = 255;
export const jobColour = (value) => JOB[theme()][value === 0 ? 0 : value === SHARED ? 9 : 1 + (value - 1) % 8];

export const theme = () => document.documentElement.dataset.theme === "dark" ? "dark" : "light";
export const steps = (by) => (by === "findings" ? FINDING : by === "jobs" ? JOB : LOAD)[theme()];
export const step = (by, value) => by === "findings" || by === "jobs" ? value : value === 0 ? 0 : 1 + Math.min(6, Math.floor(value * 7 / 256));
export const GONE = 4;
export const severity = (worst) => worst === GONE ? DOWN[theme()] : FINDING[theme()][worst];
// Of the edges in a bundle the worst counts; two jobs in one are shared.
export const worse = (by, a, b) => by !== "jobs" ? Math.max(a, b) : !a || a === b ? b : !b ? a : SHARED;
export const edgeColour = (by, value) => by === "jobs" ? jobColour(value) : steps(by)[step(by, value)];
