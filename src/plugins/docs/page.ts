/**
 * One page of the documentation as HTML: navigation, text, nothing from elsewhere. Works without scripts, with the keyboard, and
 * in dark mode; the policy sent with it forbids everything but its own style sheet.
 */
import { paletteRules } from '#base/palette.js'

/** An entry of the navigation. */
export interface PageLink {
  readonly name: string
  readonly title: string
}

/** Pages that stand together, under a heading of the navigation. */
export interface Shelf {
  readonly title: string
  readonly links: readonly PageLink[]
}

/** What browsers may do with these pages: nothing but read them. */
export const CONTENT_SECURITY_POLICY =
  "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

export function renderPage(page: {
  readonly title: string
  readonly html: string
  readonly current: string
  readonly shelves: readonly Shelf[]
}): string {
  const shelves = page.shelves.map(({ title, links }) => {
    const entries = links.map(({ name, title }) => {
      const mark = name === page.current ? ' aria-current="page"' : ''
      return `<li><a href="/docs/${name}"${mark}>${escapeHtml(title)}</a></li>`
    })
    return `<li>${escapeHtml(title)}<ul>\n${entries.join('\n')}\n</ul></li>`
  })
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(page.title)} · Trainyard</title>
<link rel="stylesheet" href="/docs/style.css">
</head>
<body>
<a class="skip" href="#text">Skip to the text</a>
<header><a href="/docs">Trainyard</a></header>
<nav aria-label="Documentation"><ul>
${shelves.join('\n')}
<li><a href="/openapi.json">OpenAPI document</a></li>
</ul></nav>
<main id="text" tabindex="-1">
${page.html}
</main>
</body>
</html>
`
}

export function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
}

/** GitHub's anchor of a heading, so that links between the pages work here as they do there. */
export function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .trim()
    .replaceAll(' ', '-')
}

export const STYLE = `:root { color-scheme: light dark; ${paletteRules()} }
* { box-sizing: border-box; }
body { margin: 0; display: grid; grid-template: auto 1fr / 15rem minmax(0, 1fr); color: var(--text); background: var(--card); font: 16px/1.6 system-ui, sans-serif; }
header { grid-column: 1 / -1; padding: .75rem 1.5rem; border-bottom: 1px solid var(--line); font-weight: 600; }
nav { padding: 1.5rem; border-right: 1px solid var(--line); }
nav ul { list-style: none; margin: 0; padding: 0; }
nav > ul { position: sticky; top: 1.5rem; max-height: calc(100vh - 3rem); overflow-y: auto; }
nav > ul > li { margin-bottom: 1rem; color: var(--soft); }
nav li { margin: .25rem 0; }
main { padding: 1.5rem 2rem 4rem; max-width: 60rem; }
a { color: var(--link); }
a[aria-current] { color: var(--text); font-weight: 600; text-decoration: none; }
a:focus-visible, main:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
h1, h2, h3, h4 { line-height: 1.25; margin: 2rem 0 .75rem; }
h1 { margin-top: 0; }
code { font: .9em/1.5 ui-monospace, monospace; background: var(--shade); padding: .1em .3em; border-radius: 4px; overflow-wrap: anywhere; }
pre { background: var(--shade); padding: 1rem; border-radius: 6px; overflow-x: auto; }
pre code { background: none; padding: 0; overflow-wrap: normal; }
.table { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { border: 1px solid var(--line); padding: .4rem .6rem; text-align: left; vertical-align: top; }
th { background: var(--shade); }
summary { cursor: pointer; padding: .25rem 0; }
img { max-width: 100%; height: auto; }
.soft { color: var(--soft); }
.skip { position: absolute; left: -100rem; }
.skip:focus { left: 1rem; top: .5rem; background: var(--back); padding: .25rem .5rem; }
@media (max-width: 50rem) {
  body { display: block; }
  nav { border-right: 0; border-bottom: 1px solid var(--line); }
}
`
