"""The page's style sheet: one for light and dark."""

CSS = """
:root {
  color-scheme: light dark;
  --paper: #f6f7f9; --card: #ffffff; --ink: #16202c; --soft: #5c6a7a; --line: #e3e7ec; --track: #eef1f5;
  --insert: #2f7de1; --update: #e39a1f; --delete: #d4366b; --mark: #7a4fd0; --gap: #d4366b2e;
  --good: #1f9d6b; --bad: #d4366b;
  --m0: #2f7de1; --m1: #17a398; --m2: #e39a1f; --m3: #d4366b; --m4: #7a4fd0; --m5: #6b8e23; --m6: #b0683a;
  --m7: #8392a5;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #0f141a; --card: #171e27; --ink: #e8edf3; --soft: #93a1b1; --line: #27313d; --track: #202a35;
    --insert: #5b9ff5; --update: #f0b44c; --delete: #f0628f; --mark: #a98bf0; --gap: #f0628f38;
    --good: #41c491; --bad: #f0628f;
    --m0: #5b9ff5; --m1: #3cc4b8; --m2: #f0b44c; --m3: #f0628f; --m4: #a98bf0; --m5: #9cbf4e; --m6: #d48f62;
    --m7: #7f8ea0;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
main { max-width: 1120px; margin: 0 auto; padding: 36px 24px 48px; }
h1 { font-size: 26px; line-height: 1.25; margin: 0; letter-spacing: -0.01em; }
h2 { font-size: 16px; margin: 0 0 2px; }
p { margin: 0; }
.soft, .hint { color: var(--soft); }
.hint { font-size: 13px; margin-bottom: 14px; }
.card {
  background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 20px 22px;
  margin-top: 18px;
}
.cards {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(140px, 1fr)); gap: 12px; margin-top:
  22px;
}
.cards .card { margin: 0; padding: 14px 16px; }
.number { font-size: 24px; font-weight: 650; letter-spacing: -0.02em; font-variant-numeric: tabular-nums; }
.label { color: var(--soft); font-size: 13px; }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 18px; }
.pair .card { min-width: 0; }
@media (max-width: 860px) { .pair { grid-template-columns: 1fr; } }
.legend {
  display: flex; flex-wrap: wrap; gap: 4px 18px; font-size: 13px; color: var(--soft); margin: 10px 0
  0;
}
.legend.flush { margin: 0; }
.below { margin-top: 10px; }
.legend i { display: inline-block; width: 10px; height: 10px; border-radius: 3px; margin-right: 6px; }
svg { display: block; width: 100%; height: auto; overflow: visible; }
svg text { fill: var(--soft); font: 11px system-ui, sans-serif; font-variant-numeric: tabular-nums; }
.insert { fill: var(--insert); background: var(--insert); }
.update { fill: var(--update); background: var(--update); }
.delete { fill: var(--delete); background: var(--delete); }
.mark { stroke: var(--mark); stroke-width: 1.5; }
.markhead { fill: var(--mark); background: var(--mark); }
.gap { fill: var(--gap); background: var(--gap); }
.grid { stroke: var(--line); }
.axis { stroke: var(--soft); stroke-opacity: 0.5; }
.bucket:hover rect { opacity: 0.75; }
.traffic { fill: var(--m1); }
.large { fill: var(--ink); background: var(--ink); stroke: var(--card); }
.on-narrow { display: none; }
.week { display: grid; grid-template-columns: 34px repeat(24, minmax(0, 1fr)); gap: 2px; font-size: 11px; }
.week span { color: var(--soft); line-height: 20px; }
.week .hour { grid-column: span 3; }
.week b {
  height: 20px; border-radius: 3px;
  background: color-mix(in srgb, var(--m0) var(--share, 0%), var(--track));
}
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th { text-align: left; color: var(--soft); font-weight: 500; font-size: 13px; white-space: nowrap; }
th, td { padding: 6px 12px 6px 0; border-bottom: 1px solid var(--line); vertical-align: middle; }
tr:last-child td { border-bottom: 0; }
th:last-child, td:last-child { padding-right: 0; }
.right { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.name { font-weight: 550; overflow-wrap: anywhere; min-width: 10ch; }
.fill { width: 99%; }
.half { width: 46%; overflow-wrap: anywhere; }
.what { overflow-wrap: anywhere; }
.where code { white-space: nowrap; }
.strip { width: 38%; min-width: 160px; }
.bar {
  height: 8px; border-radius: 4px; background: var(--track); overflow: hidden; display: flex;
  min-width: 80px;
}
.bar b { display: block; height: 100%; }
code { font: 12.5px/1.45 ui-monospace, "SF Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
.tag {
  font-size: 12px; border-radius: 99px; padding: 1px 9px; border: 1px solid currentColor;
  white-space: nowrap;
}
.good { color: var(--good); } .bad { color: var(--bad); } .ddl { color: var(--mark); }
@media (max-width: 560px) {
  main { padding: 22px 12px 36px; }
  h1 { font-size: 21px; overflow-wrap: anywhere; }
  .card { padding: 14px 14px; }
  .on-wide, .strip { display: none; }
  .on-narrow { display: block; }
  th, td { padding-right: 9px; }
  th, th.right { white-space: normal; }
  .name { min-width: 14ch; }
  .bar { min-width: 44px; }
}
footer { color: var(--soft); font-size: 13px; margin-top: 26px; }
"""
