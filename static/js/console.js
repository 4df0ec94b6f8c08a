// The console's own behaviour: small parts, each started once.
import { startClocks } from "./clocks.js";
import { startKeys } from "./keys.js";
import { startLive } from "./live.js";
import { startPalette } from "./palette.js";
import { startSelection } from "./selection.js";
import { startTheme } from "./theme.js";

startTheme();
startKeys();
startClocks();
startLive();
startPalette();
startSelection();
