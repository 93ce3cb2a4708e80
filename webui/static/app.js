// The entry module: connects the feed to the views, and shows the view that the address's hash names.

import { $, h, attribute, text } from "./lib/dom.js";
import { Feed } from "./feed.js";
import { Health } from "./views/health.js";
import { Keys } from "./lib/keys.js";
import { Tiles } from "./views/tiles.js";
import { FabricView } from "./fabric/fabric.js";
import { GroupsView } from "./fabric/groups.js";
import { Details } from "./fabric/details.js";
import { Timeline } from "./timeline/timeline.js";
import { FlowsView } from "./views/flows.js";
import { SizesView } from "./views/sizes.js";
import { PfcView } from "./views/pfc.js";
import { MembersView } from "./views/members.js";
import { EventsView } from "./views/events.js";
import { Controls } from "./views/controls.js";
import { account } from "./views/account.js";
import { toggleTheme } from "./lib/appearance.js";

const VIEWS = [
  ["overview", "Overview"],
  ["fabric", "Fabric"],
  ["schedule", "Schedule"],
  ["flows", "Flows"],
  ["sizes", "Flow sizes"],
  ["pfc", "PFC"],
  ["members", "Members"],
  ["events", "Events"],
  ["controls", "Controls"],
];

const feed = new Feed("/api/stream");
const tabs = new Map(
  VIEWS.map(([name, title], i) => [
    name,
    h("a", { href: `#${name}`, title: `${title} (${i + 1})` }, title, h("span", { class: "badge" })),
  ]),
);
$("views").append(...tabs.values());

/** Shows a number (or nothing) beside a view's name. */
function badge(name, value, kind = "") {
  const element = tabs.get(name).lastElementChild;
  text(element, value || "");
  attribute(element, "class", `badge ${kind}`.trim());
}

const shown = [];
const app = { feed, badge, show, select, onShow: (call) => shown.push(call) };

function show(name) {
  location.hash = name;
}

/** A part of the address as it was meant; as it is if it is no encoded text. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

let routed = false;
function route() {
  const [wanted, argument] = location.hash.slice(1).split("=");
  if (routed && wanted && !tabs.has(wanted)) return; // a link within the page, such as the one that skips the navigation
  const view = tabs.has(wanted) ? wanted : "overview";
  if (view !== "overview") complete();
  document.body.dataset.view = view;
  for (const [name, tab] of tabs) attribute(tab, "aria-current", name === view ? "page" : null);
  for (const section of document.querySelectorAll("main > [data-views]")) {
    section.classList.toggle("shown", section.dataset.views.split(" ").includes(view));
  }
  if (routed || view !== "overview") { // not at first, when nothing is laid out or scrolled yet
    tabs.get(view).scrollIntoView({ block: "nearest", inline: "nearest" });
    scrollTo(0, 0);
  }
  routed = true;
  if (argument) select(decoded(argument));
  for (const call of shown) call(view);
}

const details = new Details($("details"), app);
const fabric = new FabricView($("fabric"), app, (id) => details.select(id));
const groups = new GroupsView($("groups"), app, (id) => details.select(id));
function select(id) {
  if (feed.last.fabric?.groups) groups.select(id);
  else fabric.select(id);
}

const timeline = new Timeline($("timeline"), app);
new EventsView(app);
new Tiles($("tiles"), app);
new Health(app);
account($("account"));

$("theme").addEventListener("click", toggleTheme);
new Keys($("keys"), {
  views: VIEWS,
  show,
  theme: toggleTheme,
  timeline,
  fabric: { fit: () => (fabric.fit(), groups.fit()), select },
  filter: () => {
    complete();
    const search = document.querySelector(`[data-views~="${document.body.dataset.view}"] input[type="search"]`);
    if (!search || search.offsetParent === null) show("flows");
    (search?.offsetParent ? search : $("flows-filter")).focus();
  },
});
$("help").addEventListener("click", () => dispatchEvent(new CustomEvent("baton-help")));

// For the tests, and for inspection with the browser's tools.
window.baton = { feed, timeline, fabric, groups };

/** Makes the views that the overview does not show: after the page has loaded, or when the user opens one of them. */
function complete() {
  if (window.baton.flows) return;
  Object.assign(window.baton, { flows: new FlowsView($("flows"), app), members: new MembersView($("members"), app) });
  new SizesView($("sizes"), app);
  new PfcView($("pfc"), app);
  new Controls($("controls"), app);
}

addEventListener("hashchange", route);
route();
feed.start();
addEventListener("load", () => setTimeout(complete));
