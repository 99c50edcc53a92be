// Charts over time, and those of Home, which come after the page. Each has its numbers as a table: this draws no more.
(function () {
  "use strict";
  const PART = "X-Console-Part";
  const COLOURS = { success: "#0072b2", denied: "#e69f00", error: "#d55e00", limited: "#cc79a7" };
  let drawn = [];
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  async function fetchPart(part) {
    let answer = null;
    try {
      answer = await fetch(part.dataset.charts, { headers: { [PART]: "1" }, credentials: "same-origin" });
    } catch {
      // Said below, as of an answer that is none.
    }
    if (!answer?.ok || !answer.headers.has(PART)) {
      const words = part.querySelector("[data-waiting]");
      words.prepend("The charts did not come. ");
      return;
    }
    part.innerHTML = await answer.text();
    drawAll(part);
  }

  // Stripes, so that what was refused is told from the rest without its colour.
  function hatched(colour) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const pen = tile.getContext("2d");
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 8, 8);
    pen.strokeStyle = "rgba(0, 0, 0, 0.45)";
    pen.lineWidth = 2;
    pen.beginPath();
    for (const at of [-4, 4, 12]) {
      pen.moveTo(at - 4, 12);
      pen.lineTo(at + 8, 0);
    }
    pen.stroke();
    return pen.createPattern(tile, "repeat");
  }

  function bars(series) {
    const colour = COLOURS[series.colour];
    return {
      label: series.name, data: series.values, borderWidth: 0, maxBarThickness: 32, categoryPercentage: 0.9,
      backgroundColor: series.colour === "denied" ? hatched(colour) : colour,
    };
  }

  function line(series) {
    const colour = COLOURS[series.colour];
    return {
      fill: series.area ? { target: "origin", above: `${colour}33` } : false,
      label: series.name, data: series.values, borderColor: colour, backgroundColor: colour, borderWidth: 2,
      borderDash: series.dashed ? [6, 4] : [], pointRadius: series.small ? 0 : 3, pointHitRadius: 12, spanGaps: false,
      pointStyle: series.dashed ? "rectRot" : "circle", tension: 0, showLine: !series.dots,
    };
  }

  function options(config) {
    const axis = { ticks: { color: css("--gh-subtle"), maxRotation: 0, autoSkipPadding: 12 }, grid: { color: css("--gh-line") } };
    const stacked = config.kind === "bars";
    return {
      animation: false, responsive: true, maintainAspectRatio: false,
      interaction: { mode: "index", intersect: false },
      scales: {
        x: { ...axis, stacked, grid: { display: false } },
        y: { ...axis, ticks: config.whole ? { ...axis.ticks, precision: 0 } : axis.ticks, stacked, beginAtZero: true, title: { display: true, text: config.unit, color: css("--gh-subtle") } },
      },
      plugins: { legend: { position: "bottom", labels: { color: css("--gh-text"), usePointStyle: !stacked, boxWidth: stacked ? 12 : 7, boxHeight: stacked ? 12 : 7 } } },
      onHover: (event, hit) => { event.native.target.style.cursor = hit.length && config.urls.length ? "pointer" : "default"; },
      onClick: (event, _hit, chart) => { if (config.urls.length) follow(event, chart, config); },
    };
  }

  // To the log: that stretch of time, and of the bar that was hit the calls that ended so.
  function follow(event, chart, config) {
    const [near] = chart.getElementsAtEventForMode(event, "index", { intersect: false }, true);
    if (!near) return;
    const [hit] = chart.getElementsAtEventForMode(event, "nearest", { intersect: true }, true);
    const series = hit && config.series[hit.datasetIndex];
    location.assign((series?.urls || config.urls)[near.index] + (series ? series.query : ""));
  }

  function drawAll(root) {
    root.querySelectorAll("canvas[data-chart]").forEach((canvas) => {
      const config = JSON.parse(canvas.dataset.chart);
      const make = config.kind === "bars" ? bars : line;
      const data = { labels: config.labels, datasets: config.series.map(make) };
      const chart = new Chart(canvas, { type: config.kind === "bars" ? "bar" : "line", data, options: options(config) });
      drawn.push([chart, config]);
    });
  }

  // A part of the page was drawn anew: its charts too, and those that stood there go.
  function renew(event) {
    drawn.filter(([chart]) => !chart.canvas.isConnected).forEach(([chart]) => chart.destroy());
    drawn = drawn.filter(([chart]) => chart.canvas);
    drawAll(event.target);
  }

  function recolour() {
    drawn.forEach(([chart, config]) => {
      chart.options = options(config);
      chart.update("none");
    });
  }

  new MutationObserver(recolour).observe(document.documentElement, { attributeFilter: ["class"] });
  document.addEventListener("gh-fresh", renew);
  document.querySelectorAll("[data-charts]").forEach(fetchPart);
  drawAll(document);
})();
