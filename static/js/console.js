// The console's own behaviour: small parts, each started once.
import { startAccount } from "./account.js";
import { startClocks, startZone } from "./clocks.js";
import { startCopying } from "./copying.js";
import { startCursor } from "./cursor.js";
import { startEntering } from "./entering.js";
import { startKeys } from "./keys.js";
import { startLive } from "./live.js";
import { startPalette } from "./palette.js";
import { startRail } from "./rail.js";
import { startSelection } from "./selection.js";
import { startTheme } from "./theme.js";
import { startZoom } from "./zoom.js";

startTheme();
startAccount();
startEntering();
startKeys();
startClocks();
startZone();
startLive();
startCopying();
startCursor();
startPalette();
startRail();
startSelection();
startZoom();
