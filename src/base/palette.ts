/**
 * Colours of everything that a browser shows, the documentation and the page, in both themes. They are written down only here. Every
 * text colour has a contrast of 4.5 on every background (WCAG 2.1, 1.4.3), which tests of the page measure.
 */

/** By its name in style sheets: in a light theme, and in a dark one. */
export const PALETTE: Readonly<Record<string, readonly [light: string, dark: string]>> = {
  text: ['#1b1f24', '#e6e9ec'],
  soft: ['#57606a', '#a3acb5'],
  line: ['#d8dee4', '#30383f'],
  'strong-line': ['#8c959f', '#6b7580'],
  back: ['#f6f8fa', '#0f1317'],
  card: ['#ffffff', '#171c22'],
  shade: ['#eff2f5', '#222930'],
  link: ['#0b5cad', '#7db8f5'],
  accent: ['#0b5cad', '#4f9be8'],
  'on-accent': ['#ffffff', '#06121f'],
  good: ['#1a6e38', '#6fcf8f'],
  bad: ['#b3261e', '#ff8f87'],
  warn: ['#8a5a00', '#f0b95a'],
  'warn-back': ['#fff6e0', '#2c2412'],
  'bad-back': ['#fdeceb', '#331a19'],
  s1: ['#0b5cad', '#6cb2f7'],
  s2: ['#b4530a', '#f2a25c'],
  s3: ['#1a7a5e', '#56cfa8'],
  s4: ['#8b3a91', '#dd9ae2'],
}

/** As declarations of a style sheet. @example '--text: light-dark(#1b1f24, #e6e9ec);' */
export function paletteRules(): string {
  return Object.entries(PALETTE)
    .map(([name, [light, dark]]) => `--${name}: light-dark(${light}, ${dark});`)
    .join(' ')
}
