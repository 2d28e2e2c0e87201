// The list of jobs beside the map, and the links that they share.
import { jobColour } from "./colours.js";
import { $, ask, counted, element } from "./ask.js";

export class JobList {
  // chosen(name or null) is called with the job that is clicked.
  constructor(chosen) {
    Object.assign(this, { chosen, name: null });
    $("jobs").addEventListener("click", (event) => {
      const button = event.target.closest("[data-job]");
      if (!button) return;
      this.name = this.name === button.dataset.job ? null : button.dataset.job;
      this.mark();
      this.chosen(this.name);
    });
  }

  // then(path): the path for the time that is shown.
  async read(then) {
    const paths = ["jobs?limit=500", "shared-links?limit=100"].map(then);
    const [jobs, shared] = await Promise.all(paths.map(ask));
    if (paths[0] !== then("jobs?limit=500")) return;
    const shown = jobs.rows.map((job) => {
      const button = element("button", "", { class: "job", type: "button", "data-job": job.job });
      const box = element("i");
      box.style.background = jobColour(job.colour);
      const others = Object.entries(job.shared_with).slice(0, 3).map(([name, n]) => `${n} with ${name}`);
      const lines = [`${counted(job.hosts.length, "host")}, ${counted(job.cables, "cable")}${job.user ? ` · ${job.user}` : ""}`, others.length ? `shares links: ${others.join(", ")}` : "shares no link",
        `expected ${job.expected_slowdown.toFixed(2)}x slower than alone`];
      if (job.missing_hosts.length) lines.push(`${counted(job.missing_hosts.length, "host is", "hosts are")} not on this fabric: ${job.missing_hosts[0]} …`);
      button.append(box, element("b", job.job), ...lines.map((line) => element("span", line)));
      return button;
    });
    const list = element("ul");
    for (const link of shared.rows) list.append(element("li", `${link.port} → ${link.peer}: ${link.jobs.join(", ")}`));
    const more = shared.total > shared.rows.length ? [element("p", `${shared.total - shared.rows.length} more links are shared: /api/v1/shared-links`, { class: "hint" })] : [];
    $("jobs").replaceChildren(...shown, element("h2", shared.total ? `${shared.total.toLocaleString()} shared links` : "No link is shared."), list, ...more);
    this.mark();
  }

  mark() {
    for (const button of $("jobs").querySelectorAll("[data-job]")) button.setAttribute("aria-pressed", String(button.dataset.job === this.name));
  }
}
