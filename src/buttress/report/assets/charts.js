"use strict";
// Draws the charts of the report from the data in the page. Names from log files are put into the
// page as text only, and are never part of a chart option that could be read as a template.
const drawings = (() => {
  const charts = JSON.parse(document.getElementById("chart-data").textContent);
  const root = document.documentElement;
  const LINE_COLOURS = 4;
  const DASHES = ["solid", "dashed", "dotted"]; // when the colours are used up
  const ZOOM_FROM = 40; // labels

  const token = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();

  function element(tag, className, text) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  // The role of each series; the n-th free line gets the n-th line colour.
  function rolesOf(chart) {
    let lines = 0;
    return chart.series.map((one) =>
      one.colour === "line" ? `line-${(lines++ % LINE_COLOURS) + 1}` : one.colour,
    );
  }

  const said = (one, place) => {
    if (one.detail.length) return one.detail[place];
    const value = one.values[place];
    return value === null ? "–" : value.toLocaleString("en");
  };

  const roleAt = (chart, roles, series, place) => chart.colours[place] ?? roles[series];

  class Drawing {
    constructor(holder) {
      this.holder = holder;
      this.chart = charts[holder.dataset.chart];
      this.roles = rolesOf(this.chart);
      this.shown = this.chart.series.map((one) => one.shown);
      this.place = -1;
      this.zooms = ["columns", "lines"].includes(this.chart.form)
        && this.chart.labels.length >= ZOOM_FROM;
      holder.style.height = `${this.height()}px`;
      this.view = echarts.init(holder, null, { renderer: "svg" });
      this.restyle();
      this.legend();
      this.keys();
      new ResizeObserver(() => this.view.resize()).observe(holder);
    }

    height() {
      const { form, labels } = this.chart;
      if (form === "bars") return labels.length * 30 + (this.chart.share ? 40 : 16);
      return form === "histogram" ? 250 : 290 + (this.zooms ? 36 : 0);
    }

    restyle() {
      this.view.setOption(this.option(), { notMerge: false });
    }

    redraw() {
      this.view.dispatchAction({ type: "updateAxisPointer", currTrigger: "leave" });
      this.view.resize();
      this.restyle();
    }

    option() {
      const { chart } = this;
      const flat = chart.form === "bars";
      const labels = this.labelAxis(flat);
      const values = this.valueAxes(flat);
      const option = {
        animation: false,
        textStyle: { fontFamily: token("sans"), fontSize: 12, color: token("soft") },
        grid: {
          left: 8, right: this.rightRoom(flat), top: flat ? 8 : 30, bottom: this.zooms ? 44 : flat ? 6 : 24,
          containLabel: true,
        },
        legend: { show: false, selected: Object.fromEntries(this.shown.map((on, n) => [`s${n}`, on])) },
        tooltip: {
          trigger: "axis", confine: true, transitionDuration: 0,
          axisPointer: {
            type: chart.form === "lines" ? "line" : "shadow",
            lineStyle: { color: token("soft") }, shadowStyle: { color: token("hover") },
          },
          // the box is drawn by the style sheet, so that it follows the theme
          backgroundColor: "transparent", borderWidth: 0, padding: 0, extraCssText: "box-shadow: none",
          formatter: (points) => this.tip(points[0].dataIndex),
        },
        [flat ? "yAxis" : "xAxis"]: labels,
        [flat ? "xAxis" : "yAxis"]: values,
        series: chart.series.map((one, n) => this.series(one, n, flat)),
      };
      if (this.zooms) option.dataZoom = this.zoom();
      return option;
    }

    rightRoom(flat) {
      if (flat) return this.chart.ends.length ? 150 : 92;
      return this.chart.limit === null ? 12 : 34;
    }

    labelAxis(flat) {
      return {
        type: "category", data: this.chart.labels, inverse: flat,
        name: flat ? "" : this.chart.x_name, nameLocation: "middle", nameGap: 26,
        nameTextStyle: { color: token("soft") },
        axisLine: { lineStyle: { color: token("axis") } }, axisTick: { show: false },
        axisLabel: {
          color: token(flat ? "ink" : "soft"), hideOverlap: true,
          ...(flat ? { width: 170, overflow: "truncate" } : {}),
        },
      };
    }

    valueAxes(flat) {
      const { chart } = this;
      const percent = { formatter: (value) => `${Math.round(value * 100)}%` };
      const main = {
        type: "value", min: chart.form === "lines" ? undefined : 0, max: chart.share ? 1 : undefined,
        scale: chart.form === "lines", minInterval: chart.share || chart.form === "lines" ? 0 : 1,
        name: flat ? "" : chart.y_name, nameTextStyle: { color: token("soft"), align: "left" },
        axisLabel: {
          color: token("soft"), hideOverlap: true, show: !flat || chart.share, ...(chart.share ? percent : {}),
        },
        splitLine: { show: !flat, lineStyle: { color: token("rule") } },
      };
      const own = chart.series.findIndex((one) => one.own_axis);
      if (own < 0) return [main];
      return [main, {
        type: "value", scale: true, position: "right", splitLine: { show: false },
        name: this.shown[own] ? chart.series[own].name : "",
        nameTextStyle: { color: token("soft"), align: "right" },
        axisLabel: { color: token("soft") },
      }];
    }

    series(one, n, flat) {
      const { chart } = this;
      const colour = token(this.roles[n]);
      const painted = chart.colours.length
        ? one.values.map((value, at) => ({ value, itemStyle: { color: token(chart.colours[at]) } }))
        : one.values;
      const made = {
        name: `s${n}`, type: one.line ? "line" : "bar", data: painted, color: colour,
        yAxisIndex: one.own_axis ? 1 : 0, emphasis: { disabled: true }, z: one.line ? 4 : 2,
      };
      if (one.line) {
        Object.assign(made, {
          showSymbol: false, symbol: "circle", symbolSize: 6, connectNulls: false,
          lineStyle: { width: one.colour === "ink" ? 2 : 1.6, color: colour, type: this.dash(n) },
        });
      } else {
        const gap = chart.form === "columns" ? (chart.labels.length > 160 ? "0%" : "12%") : "22%";
        Object.assign(made, { stack: "all", barCategoryGap: gap, barMaxWidth: flat ? 16 : 60 });
        if (flat) {
          made.label = {
            show: n === this.shown.lastIndexOf(true), position: "right", color: token("ink"), backgroundColor: token("paper"),
            padding: [1, 3], formatter: ({ dataIndex: at }) => chart.ends[at] ?? said(one, at),
          };
        }
      }
      if (n === 0 && chart.limit !== null) made.markLine = this.limit(flat);
      return made;
    }

    limit(flat) {
      const { limit } = this.chart;
      return {
        silent: true, symbol: "none", animation: false,
        lineStyle: { color: token("ink"), width: 1, type: [4, 3] },
        label: {
          show: !flat, position: "end", distance: 4, color: token("ink"), fontSize: 11,
          formatter: () => String(limit),
        },
        data: [flat ? { xAxis: limit } : { yAxis: limit }],
      };
    }

    zoom() {
      return [
        { type: "inside", zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false, filterMode: "filter" },
        {
          type: "slider", show: !root.classList.contains("paper"), height: 16, bottom: 4,
          showDetail: false, brushSelect: false, filterMode: "filter",
          borderColor: token("rule"), fillerColor: token("hover"), backgroundColor: "transparent",
          dataBackground: { lineStyle: { color: token("axis") }, areaStyle: { color: token("rule") } },
          selectedDataBackground: { lineStyle: { color: token("axis") }, areaStyle: { color: token("rule") } },
          handleStyle: { color: token("raised"), borderColor: token("soft") },
          moveHandleSize: 0,
        },
      ];
    }

    // What there is to say of one label.
    lines(place) {
      const visible = this.chart.series.map((_, n) => n).filter((n) => this.shown[n]);
      const drawn = visible.map((n) => ({
        swatch: this.swatch(n, roleAt(this.chart, this.roles, n, place)),
        name: this.chart.series[n].name,
        value: said(this.chart.series[n], place),
      }));
      return drawn.concat(this.chart.more.map(([name, texts]) => ({ swatch: "", name, value: texts[place] })));
    }

    swatch(n, role) {
      return `swatch is-${role}${this.chart.series[n].line ? ` is-stroke is-${this.dash(n)}` : ""}`;
    }

    dash(n) {
      const { colour, own_axis: own } = this.chart.series[n];
      if (own) return "dashed";
      return colour === "line" ? DASHES[Math.floor(n / LINE_COLOURS) % DASHES.length] : "solid";
    }

    title(place) {
      const { x_name: axis, labels } = this.chart;
      return axis ? `${axis} ${labels[place]}` : labels[place];
    }

    tip(place) {
      const box = element("div", "tip");
      box.append(element("strong", "", this.title(place)));
      for (const { swatch, name, value } of this.lines(place)) {
        const row = element("div", "tip-row");
        row.append(element("i", swatch), element("span", "", name), element("b", "", value));
        box.append(row);
      }
      return box;
    }

    legend() {
      const list = this.holder.parentElement.querySelector(".legend");
      if (!list || this.chart.series.length < 2) return;
      this.chart.series.forEach((one, n) => {
        const button = element("button", "", one.name);
        button.type = "button";
        button.prepend(element("i", this.swatch(n, this.roles[n])));
        const mark = () => button.setAttribute("aria-pressed", String(this.shown[n]));
        button.addEventListener("click", () => {
          this.shown[n] = !this.shown[n];
          this.restyle();
          mark();
        });
        mark();
        const item = element("li");
        item.append(button);
        list.append(item);
      });
    }

    keys() {
      const moves = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, PageDown: 10, PageUp: -10,
        Home: -Infinity, End: Infinity };
      this.holder.addEventListener("keydown", (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        if (event.key in moves) this.point(moves[event.key]);
        else if (this.zooms && "+-=".includes(event.key)) this.magnify(event.key === "-" ? 2 : 0.5);
        else if (event.key === "Escape") this.reset();
        else return;
        event.preventDefault();
      });
      this.holder.addEventListener("blur", () => this.view.dispatchAction({ type: "hideTip" }));
    }

    point(move) {
      const last = this.chart.labels.length - 1;
      this.place = Math.max(0, Math.min(last, this.place + move));
      const seriesIndex = Math.max(0, this.shown.indexOf(true));
      this.view.dispatchAction({ type: "showTip", seriesIndex, dataIndex: this.place });
      const words = this.lines(this.place).map(({ name, value }) => `${name} ${value}`);
      document.getElementById("spoken").textContent = [this.title(this.place), ...words].join(", ");
    }

    magnify(factor) {
      const { start, end } = this.view.getOption().dataZoom[0];
      const middle = this.place < 0 ? (start + end) / 2 : (100 * this.place) / this.chart.labels.length;
      const half = Math.min(50, Math.max(1, ((end - start) / 2) * factor));
      const from = Math.max(0, Math.min(middle - half, 100 - 2 * half));
      this.view.dispatchAction({ type: "dataZoom", start: from, end: from + 2 * half });
    }

    reset() {
      this.place = -1;
      this.view.dispatchAction({ type: "hideTip" });
      if (this.zooms) this.view.dispatchAction({ type: "dataZoom", start: 0, end: 100 });
    }
  }

  return [...document.querySelectorAll("[data-chart]")].map((holder) => new Drawing(holder));
})();
