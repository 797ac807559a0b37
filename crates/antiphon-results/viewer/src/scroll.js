// Where one is among more rows than a browser can scroll: no element may be as high as ten million rows.

/** The highest an element is made. Firefox stops at some 17 million pixels, Chromium at 33. */
export const HIGHEST = 15_000_000;

/**
 * A place among rows, in pixels from the first, whatever the scroll bar can tell.
 *
 * Invariant: `0 <= top <= most`, and the scroll bar is at its end exactly when `top` is.
 */
export class Place {
  top = 0;
  rows = 0;
  height = 1;
  view = 0;

  /** @param {number} rows @param {number} height of a row @param {number} view how much is seen */
  resize(rows, height, view) {
    // Who was at the end of the same rows stays there, also when less is seen.
    const end = this.top > 0 && this.top === this.most && this.rows === rows;
    Object.assign(this, { rows, height, view });
    this.move(end ? this.most : this.top);
  }

  /** How high all rows are. */
  get whole() {
    return this.rows * this.height;
  }

  /** How high the element is that stands for them. */
  get spacer() {
    return Math.max(this.view, Math.min(this.whole, HIGHEST));
  }

  /** The last place there is. */
  get most() {
    return Math.max(0, this.whole - this.view);
  }

  /** Whether the scroll bar stands for more than itself. */
  get scaled() {
    return this.whole > HIGHEST;
  }

  /** Goes to a place. */
  move(top) {
    this.top = Math.min(Math.max(0, Math.round(top)), this.most);
  }

  /** Goes where the scroll bar is. */
  follow(bar) {
    const end = this.spacer - this.view;
    if (!this.scaled) return this.move(bar);
    // The ends are exact, whatever rounding does to what is between them.
    this.move(bar <= 0 ? 0 : bar >= end - 1 ? this.most : (bar / end) * this.most);
  }

  /** Where the scroll bar belongs. */
  get bar() {
    const end = this.spacer - this.view;
    if (!this.scaled) return this.top;
    if (this.top === this.most) return end;
    return Math.min(end - 2, Math.round((this.top / this.most) * end));
  }

  /** The first and last row that is seen at least in part. */
  get seen() {
    const first = Math.floor(this.top / this.height);
    return [first, Math.min(this.rows - 1, Math.floor((this.top + this.view - 1) / this.height))];
  }

  /** Goes no further than needed to see all of a row. */
  reveal(row) {
    const top = row * this.height;
    if (top < this.top) this.move(top);
    else if (top + this.height > this.top + this.view) this.move(top + this.height - this.view);
  }
}
