/**
 * The pages of `src/docs` by shelf, and the reference, rendered once and kept. Pages come with the package and are trusted text;
 * a name from a request only chooses among them. A page is served under its file's name alone, whatever its shelf.
 */
import { readdir, readFile } from 'node:fs/promises'
import { join, parse } from 'node:path'
import { Marked, type Tokens } from 'marked'
import { packageRoot } from '#base/util/package-root.js'
import type { EndpointTable } from '#contract/endpoints/table.js'
import { anchorOf, escapeHtml, type PageLink, renderPage, type Shelf } from './page.js'
import { renderReference } from './reference.js'

const REFERENCE: PageLink = { name: 'reference', title: 'API reference' }
/** A file of `src/docs/pictures`, as pages link to it. */
const PICTURE = /^(?:\.\.\/pictures\/)?([\w-]+[.](?:svg|png))$/
const PICTURE_TYPES: Readonly<Record<string, string>> = { '.svg': 'image/svg+xml', '.png': 'image/png' }
/** Folders of `src/docs` that are served, with what is shown first of each; others follow by name. */
const SHELVES = [
  { folder: 'start', title: 'Start', first: ['first-steps', 'own-task', 'does-it-learn'] },
  {
    folder: 'guides',
    title: 'Guides',
    first: [
      'my-data',
      'rewards',
      'tools',
      'preferences',
      'my-model',
      'programs',
      'moving-from-openai',
      'page',
      'deploy',
      'trouble',
    ],
  },
  { folder: 'reference', title: 'Reference', first: ['api', 'commands', 'how-training-works'] },
] as const

export interface Documentation {
  /** The page as HTML; null if there is none. An empty name is the first page. */
  page(name: string): Promise<string | null>
  /** A drawing or a screenshot of the pages, by its file's name; null if there is none. */
  picture(file: string): Promise<Picture | null>
}

interface Picture {
  /** Media type. */
  readonly type: string
  readonly bytes: Uint8Array
}

export function createDocumentation(table: EndpointTable): Documentation {
  let pages: Promise<ReadonlyMap<string, string>> | null = null
  let pictures: Promise<ReadonlyMap<string, Picture>> | null = null
  return {
    picture: async (file) => {
      pictures ??= readPictures()
      return (await pictures).get(file) ?? null
    },
    page: async (name) => {
      pages ??= readPages(table)
      const all = await pages
      return all.get(name === '' ? (all.keys().next().value ?? '') : name) ?? null
    },
  }
}

async function readPages(table: EndpointTable): Promise<ReadonlyMap<string, string>> {
  const shelves = await Promise.all(
    SHELVES.map(async ({ folder, title, first }) => ({ title, pages: await readShelf(folder, first) })),
  )
  const links: readonly Shelf[] = shelves.map(({ title, pages }) => ({
    title,
    links: [...pages.map(({ name, title }) => ({ name, title })), ...(title === 'Reference' ? [REFERENCE] : [])],
  }))
  const pages = new Map(
    shelves.flatMap((shelf) =>
      shelf.pages.map(({ name, text, title }) => [
        name,
        renderPage({ title, html: toHtml(text), current: name, shelves: links }),
      ]),
    ),
  )
  const reference = { title: REFERENCE.title, html: renderReference(table), current: REFERENCE.name, shelves: links }
  return pages.set(REFERENCE.name, renderPage(reference))
}

interface Page extends PageLink {
  readonly text: string
}

async function readShelf(shelf: string, first: readonly string[]): Promise<readonly Page[]> {
  const folder = join(packageRoot(), 'src/docs', shelf)
  const files = (await readdir(folder)).filter((file) => /[.]md$/.test(file))
  const pages = await Promise.all(
    files.map(async (file) => {
      const text = await readFile(join(folder, file), 'utf8')
      const { name } = parse(file)
      return { name, text, title: /^# (.+)$/m.exec(text)?.[1] ?? name }
    }),
  )
  const rank = (name: string) => (first.includes(name) ? first.indexOf(name) : first.length)
  return pages.sort((a, b) => rank(a.name) - rank(b.name) || (a.name < b.name ? -1 : 1))
}

async function readPictures(): Promise<ReadonlyMap<string, Picture>> {
  const folder = join(packageRoot(), 'src/docs/pictures')
  const files = (await readdir(folder)).filter((file) => PICTURE.test(file))
  return new Map(
    await Promise.all(
      files.map(async (file) => {
        const type = PICTURE_TYPES[parse(file).ext] ?? ''
        return [file, { type, bytes: await readFile(join(folder, file)) }] as const
      }),
    ),
  )
}

function toHtml(markdown: string): string {
  const marked = new Marked({ gfm: true, async: false })
  const seen = new Map<string, number>()
  marked.use({
    renderer: {
      heading({ tokens, depth, text }: Tokens.Heading): string {
        const plain = text.replaceAll(/[`*]/g, '').replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
        const anchor = anchorOf(plain)
        const count = seen.get(anchor) ?? 0
        seen.set(anchor, count + 1)
        // the second heading of a name is `name-1`, as at GitHub
        return `<h${depth} id="${escapeHtml(count === 0 ? anchor : `${anchor}-${count}`)}">${this.parser.parseInline(tokens)}</h${depth}>\n`
      },
      link({ href, tokens }: Tokens.Link): string {
        const text = this.parser.parseInline(tokens)
        const target = toTarget(href)
        return target === null ? text : `<a href="${escapeHtml(target)}">${text}</a>`
      },
      image({ href, text }: Tokens.Image): string {
        const alt = escapeHtml(text)
        const file = PICTURE.exec(href)?.[1]
        return file === undefined ? alt : `<img src="/docs/pictures/${file}" alt="${alt}">`
      },
      html({ text }: Tokens.HTML | Tokens.Tag): string {
        return escapeHtml(text)
      },
    },
    hooks: {
      postprocess: (html: string) =>
        html
          .replaceAll('<table>', '<div class="table"><table>')
          .replaceAll('</table>', '</table></div>')
          .replaceAll('<th>', '<th scope="col">'),
    },
  })
  return marked.parse(markdown) as string
}

/** Links between pages stay; those to files of the source have no address here and become plain text. */
function toTarget(href: string): string | null {
  if (href.startsWith('#') || /^https?:/.test(href)) return href
  const page = /^(?:\.\/|\.\.\/(?:start|guides|reference)\/)?([\w-]+)[.]md(#.*)?$/.exec(href)
  return page === null ? null : `/docs/${page[1] ?? ''}${page[2] ?? ''}`
}
