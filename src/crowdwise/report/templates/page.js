(() => {
  "use strict";
  const PAGE = 25, KEPT = 119;
  const root = document.documentElement;
  const data = JSON.parse(document.getElementById("data").textContent);
  const views = {};
  root.classList.add("scripted");

  // ---- dark and light ----
  const theme = document.getElementById("theme");
  const preferred = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => root.classList.contains("dark") || (!root.classList.contains("light") && preferred.matches);
  const showTheme = () => {
    theme.setAttribute("aria-pressed", String(isDark()));
    theme.textContent = isDark() ? "Light" : "Dark";
    theme.setAttribute("aria-label", isDark() ? "Use light colours" : "Use dark colours");
    theme.removeAttribute("aria-pressed");
  };
  theme.addEventListener("click", () => {
    const dark = !isDark();
    root.classList.toggle("dark", dark);
    root.classList.toggle("light", !dark);
    showTheme();
  });
  preferred.addEventListener("change", showTheme);
  showTheme();

  // ---- cells: text is only ever set as text ----
  const made = (tag, text, kind) => {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    if (kind) node.className = kind;
    return node;
  };
  const number = new Intl.NumberFormat("en");
  const percent = (share) => (share === null ? "–" : share >= 0.9995 && share < 1 ? ">99.9%" : (100 * share).toFixed(1) + "%");
  const named = (text) => made("bdi", text);
  const whole = (share) => (100 * share).toFixed(0);
  // Pictures of the first rows stand in the page; those of the others come with the rows.
  const pictures = Object.fromEntries([...document.querySelectorAll("img[data-row]")].map((image) => [image.dataset.row, image.src]));
  const cells = {
    name: (value) => { const cell = made("th", undefined, "name"); cell.scope = "row"; cell.append(named(value)); return cell; },
    text: (value) => { const cell = made("td"); cell.append(named(value)); return cell; },
    item: ([short, whole, picture]) => {
      const cell = made("td", undefined, "item"), source = typeof picture === "number" ? pictures[picture] : picture;
      if (source) { const image = made("img", undefined, "item"); image.alt = "What the task shows"; image.src = source; cell.append(image); }
      if (whole) {
        const fold = made("details", undefined, "item"), head = made("summary"), text = made("p", undefined, "whole");
        head.append(named(short));
        text.append(named(whole));
        fold.append(head, text);
        cell.append(fold);
      } else if (short) { const line = made("p", undefined, "item"); line.append(named(short)); cell.append(line); }
      return cell;
    },
    count: (value) => made("td", number.format(value), "number"),
    group: (value) => made("td", value === null ? "" : String(value), "number"),
    percent: (value) => made("td", percent(value), "number"),
    score: (value) => made("td", value === null ? "–" : value.toFixed(3), "number"),
    interval: ([low, high]) => {
      const cell = made("td"), strip = made("span", `${whole(low)} to ${whole(high)}%`, "strip");
      strip.style.setProperty("--low", low);
      strip.style.setProperty("--high", high);
      cell.append(strip);
      return cell;
    },
    verdict: (value) => {
      const cell = made("td");
      if (value) { const flag = made("span", undefined, "flag"); flag.append(named(value)); cell.append(flag); }
      return cell;
    },
    votes: (value) => {
      const cell = made("td");
      for (const [times, said] of value) {
        const vote = made("span", `${times} × `, "vote");
        vote.append(named(said));
        cell.append(vote, " ");
      }
      return cell;
    },
  };

  // ---- tables ----
  const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
  const compared = (a, b) => (typeof a === "string" ? collator.compare(a, b) : Array.isArray(a) ? a[0] - b[0] : a - b);
  const written = (value) => (typeof value === "string" && !value.startsWith("data:") ? [value] : Array.isArray(value) && typeof value[0] === "string" ? value.flatMap(written) : []);
  const missing = (value) => value === null || value === "";

  class Table {
    constructor(name, rows, onSearch) {
      this.table = document.querySelector(`table[data-table="${name}"]`);
      this.body = this.table.tBodies[0];
      this.rows = rows.map((row) => ({ row, text: row.flatMap(written).join("\n").toLowerCase() }));
      this.shown = this.rows;
      this.page = 0;
      this.heads = [...this.table.tHead.rows[0].cells];
      this.types = this.heads.map((head) => head.dataset.type);
      this.status = document.querySelector(`.status[data-for="${name}"]`);
      this.pager = document.querySelector(`.pager[data-for="${name}"]`);
      this.form = document.querySelector(`form[data-for="${name}"]`);
      this.input = this.form.querySelector("input");
      this.select = this.form.querySelector("select");
      this.onSearch = onSearch;
      this.sortable();
      this.searchable();
      this.pages();
      this.draw();
    }
    sortable() {
      this.heads.forEach((head, at) => {
        if (this.types[at] === "votes" || this.types[at] === "item") return;
        const button = made("button", head.textContent);
        button.type = "button";
        head.replaceChildren(button);
        head.setAttribute("aria-sort", "none");
        button.addEventListener("click", () => this.sort(at));
      });
    }
    searchable() {
      this.form.addEventListener("submit", (event) => event.preventDefault());
      this.input.addEventListener("input", () => this.search());
      if (!this.select) return;
      const at = this.types.indexOf("verdict");
      const kinds = [...new Set(this.rows.map(({ row }) => row[at]))].filter(Boolean);
      for (const kind of kinds) { const option = made("option", kind); option.value = kind; this.select.append(option); }
      this.select.addEventListener("change", () => this.search());
    }
    pages() {
      const button = (text, step) => {
        const made_ = made("button", text);
        made_.type = "button";
        made_.addEventListener("click", () => { this.page += step; this.draw(); });
        return made_;
      };
      this.back = button("Previous", -1);
      this.next = button("Next", 1);
      this.place = made("span");
      this.pager.append(this.back, this.place, this.next);
    }
    search() {
      const wanted = this.input.value.trim().toLowerCase().slice(0, KEPT);
      const verdict = this.select ? this.select.value : "";
      const at = this.types.indexOf("verdict");
      this.shown = this.rows.filter(({ row, text }) => (!verdict || row[at] === verdict) && text.includes(wanted));
      this.page = 0;
      this.arrange();
      this.draw();
      if (this.onSearch) this.onSearch(wanted);
    }
    sort(at) {
      const numeric = typeof (this.rows.find(({ row }) => !missing(row[at])) || { row: [] }).row[at] === "number";
      const before = this.heads[at].getAttribute("aria-sort");
      const first = numeric ? "descending" : "ascending", second = numeric ? "ascending" : "descending";
      this.heads.forEach((head) => head.hasAttribute("aria-sort") && head.setAttribute("aria-sort", "none"));
      this.heads[at].setAttribute("aria-sort", before === first ? second : first);
      this.order = { at, sign: before === first ? (numeric ? 1 : -1) : numeric ? -1 : 1 };
      this.page = 0;
      this.arrange();
      this.draw();
    }
    arrange() {
      if (!this.order) return;
      const { at, sign } = this.order;
      this.shown = [...this.shown].sort(({ row: a }, { row: b }) =>
        missing(a[at]) || missing(b[at]) ? missing(a[at]) - missing(b[at]) : sign * compared(a[at], b[at]));
    }
    draw() {
      const last = Math.max(0, Math.ceil(this.shown.length / PAGE) - 1);
      this.page = Math.min(Math.max(this.page, 0), last);
      const from = this.page * PAGE, part = this.shown.slice(from, from + PAGE);
      this.body.replaceChildren(...part.map(({ row }) => {
        const line = made("tr");
        line.append(...row.map((value, at) => cells[this.types[at]](value)));
        return line;
      }));
      const order = this.order ? `, sorted by ${this.heads[this.order.at].textContent.toLowerCase()}` : "";
      this.status.textContent = this.shown.length === this.rows.length
        ? `${number.format(this.rows.length)} in all${order}.`
        : `${number.format(this.shown.length)} of ${number.format(this.rows.length)} match${order}.`;
      this.place.textContent = part.length
        ? `${number.format(from + 1)} to ${number.format(from + part.length)} of ${number.format(this.shown.length)}` : "none";
      this.back.disabled = this.page === 0;
      this.next.disabled = this.page === last;
      this.pager.hidden = this.rows.length <= PAGE;
    }
  }

  const lookUp = (wanted) => {
    for (const name of ["workers", "agreement"]) if (views[name]) views[name].signal("query", wanted).runAsync();
  };
  const workers = new Table("workers", data.tables.workers.map(([name, n, skill, low, high, ...rest]) => [name, n, skill, [low, high], ...rest]), lookUp);
  if (data.tables.tasks.length) new Table("tasks", data.tables.tasks);

  // ---- charts ----
  const options = { mode: "vega-lite", renderer: "svg", actions: false, ast: true, config: data.config, tooltip: { theme: "custom" } };
  const draw = async () => {
    for (const place of document.querySelectorAll("[data-chart]")) {
      const name = place.dataset.chart;
      try {
        const { view } = await vegaEmbed(place, data.charts[name], options);
        views[name] = view;
        if (name === "workers" || name === "agreement") {
          view.addEventListener("click", (event, item) => {
            if (!item || !item.datum || !item.datum.worker) return;
            workers.input.value = item.datum.worker;
            workers.search();
          });
        }
      } catch (error) {
        place.textContent = "This chart could not be drawn.";
        console.error(error);
      }
    }
    root.dataset.ready = "yes";
  };
  draw();

  // All findings are printed, also those that are folded.
  window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => { each.open = true; }));
})();
