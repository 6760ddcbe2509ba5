// Numbers and tokens as text.

const integers = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** Returns a number with four significant digits, an integer with all of its digits, and "n/a" for
 *  null. */
export function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "n/a";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e15) return integers.format(value);
  if (size >= 1000 && size < 1e15) return integers.format(value);
  if (size < 1e-3 || size >= 1e15) return value.toExponential(2).replace("e+", "e");
  return String(Number(value.toPrecision(4)));
}

/** Returns a short text for an axis: 20k for 20000. */
export function short(value) {
  const size = Math.abs(value);
  for (const [unit, suffix] of [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ]) {
    if (size >= unit) return Number((value / unit).toPrecision(4)) + suffix;
  }
  if (size !== 0 && size < 1e-3) return value.toExponential(1).replace(".0e", "e");
  return String(Number(value.toPrecision(4)));
}

/** Returns a fraction as a percentage. */
export function percent(value) {
  return value === null || value === undefined
    ? "n/a"
    : `${Number((100 * value).toPrecision(3))} %`;
}

/** Returns a duration given in seconds, such as "2 h 05 min". */
export function duration(seconds) {
  const pad = (value) => String(value).padStart(2, "0");
  if (seconds < 60) return `${Number(seconds.toPrecision(3))} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${pad(Math.floor(seconds % 60))} s`;
  return `${Math.floor(minutes / 60)} h ${pad(minutes % 60)} min`;
}

const SYMBOLS = { " ": "␣", "\n": "↵", "\r": "␍", "\t": "⇥", "": "∅" };

/** Returns a token with visible white space. Only a token of nothing but white space has symbols
 *  for spaces, so that words stay readable. */
export function visible(token) {
  if (Object.hasOwn(SYMBOLS, token)) return SYMBOLS[token];
  const lines = token
    .replace(/[\n\r\t]/g, (character) => SYMBOLS[character])
    // Controls of the direction of text would show the characters in another order.
    .replace(/[\u202a-\u202e\u2066-\u2069]/g, (character) => {
      return `⟨U+${character.charCodeAt(0).toString(16).toUpperCase()}⟩`;
    });
  return token.trim() === "" ? lines.replace(/ /g, "␣") : lines.replace(/^ | $/g, "␣");
}

/** Returns at most `length` characters of a text; a longer one ends in an ellipsis. */
export function truncated(text, length) {
  const characters = [...text.slice(0, 2 * length + 2)];
  return characters.length > length ? `${characters.slice(0, length - 1).join("")}…` : text;
}
