/**
 * Bundles the page into `dist/ui`: hashed scripts and one style sheet, each with a .br and .gz beside it, `manifest.json` and
 * `LICENSES.txt`. The server serves what the manifest names and nothing else (`../handlers.ts`).
 *
 * Types are checked by `npm run check`. What is new is written beside what is there and then takes its place, so that a build that fails
 * leaves the old page.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'

const ROOT = path.resolve(import.meta.dirname, '../../../..')
const TARGET = path.join(ROOT, 'dist/ui')
const TYPES = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.txt': 'text/plain; charset=utf-8',
}

const { build } = await import('esbuild').catch((cause) => {
  throw new Error('the packages that the page is built with are missing: run npm ci', { cause })
})

const { paletteRules } = await import(path.join(ROOT, 'dist/src/base/palette.js'))

/** The palette as a style sheet: `@import "palette"`. */
const palette = {
  name: 'palette',
  setup(bundler) {
    bundler.onResolve({ filter: /^palette$/ }, () => ({ path: 'palette', namespace: 'palette' }))
    bundler.onLoad({ filter: /.*/, namespace: 'palette' }, () => ({
      contents: `:root { ${paletteRules()} }`,
      loader: 'css',
    }))
  },
}

/**
 * Views that are opened one after the other are one script: a part that two scripts share is a third one, and small ones pack
 * badly.
 */
const TOGETHER = [
  ['checkpoints', 'evaluations', 'marks', 'watch'],
  ['rollouts', 'rollout-group', 'trajectory', 'grader'],
  ['job', 'jobs', 'session'],
  ['loop', 'loops', 'graders'],
  ['data', 'train'],
  ['model', 'compare'],
]
const together = {
  name: 'together',
  setup(bundler) {
    bundler.onResolve({ filter: /^\.\/pages\/[\w-]+\.js$/ }, ({ path: file, kind }) => {
      const view = path.basename(file, '.js')
      const group = TOGETHER.find((views) => views.includes(view))
      return kind === 'dynamic-import' && group !== undefined ? { path: group[0], namespace: 'together' } : undefined
    })
    bundler.onLoad({ filter: /./, namespace: 'together' }, ({ path: first }) => ({
      contents: TOGETHER.find(([view]) => view === first)
        .map((view) => `export * from './${view}.tsx'`)
        .join('\n'),
      resolveDir: path.join(import.meta.dirname, 'pages'),
    }))
  },
}

/**
 * Takes out of two packages what they name when they are loaded and the page does not use, so that what hangs on it goes, too:
 * marked's parser and renderer (the page has its lexer), uPlot's bars, steps and splines (it draws lines).
 */
const unused = {
  name: 'unused',
  setup(bundler) {
    const take = (filter, cut) =>
      bundler.onLoad({ filter }, ({ path: file }) => {
        const contents = cut(readFileSync(file, 'utf8'))
        if (contents === null) throw new Error(`${file} is not laid out as it was: see "unused" of src/ui/build.js`)
        return { contents }
      })
    take(/[\\/]marked\.esm\.js$/, (text) => {
      const exported = text.slice(text.lastIndexOf('export{'))
      const nameOf = (name) => new RegExp(`([\\w$]+) as ${name}\\b`).exec(exported)?.[1]
      const made = text.indexOf(`=new ${nameOf('Marked')};`)
      return made === -1 ? null : `${text.slice(0, text.lastIndexOf('var ', made))}export{${nameOf('Lexer')} as Lexer};`
    })
    take(/[\\/]uPlot\.esm\.js$/, (text) => {
      const parts = text.split(/\(paths\.(?:stepped|bars|spline)\s*=\s*\w+\);/)
      return parts.length === 4 ? parts.join('') : null
    })
  },
}

const common = {
  absWorkingDir: ROOT,
  outdir: TARGET,
  entryNames: '[name]-[hash]',
  chunkNames: '[name]-[hash]',
  bundle: true,
  format: 'esm',
  target: ['chrome125', 'firefox127', 'safari17.5'],
  jsx: 'automatic',
  jsxImportSource: 'preact',
  minify: true,
  legalComments: 'none',
  charset: 'utf8',
  plugins: [palette, unused, together],
  write: false,
  metafile: true,
  logLevel: 'warning',
}
const page = await build({
  ...common,
  entryPoints: { app: 'src/plugins/page/browser/app.tsx', style: 'src/plugins/page/browser/style/main.css' },
  splitting: true,
})
// a worker shares nothing with the page
const worker = await build({ ...common, entryPoints: { feed: 'src/plugins/page/browser/data/feed-worker.ts' } })
const outputFiles = [...page.outputFiles, ...worker.outputFiles]
const metafile = {
  inputs: { ...page.metafile.inputs, ...worker.metafile.inputs },
  outputs: { ...page.metafile.outputs, ...worker.metafile.outputs },
}

const fresh = `${TARGET}-new`
rmSync(fresh, { recursive: true, force: true })
mkdirSync(fresh, { recursive: true })

const files = {}
const written = [
  ...outputFiles.map(({ path: name, contents }) => ({ name: path.basename(name), bytes: contents })),
  { name: 'LICENSES.txt', bytes: Buffer.from(licenses(Object.keys(metafile.inputs))) },
]
for (const { name, bytes } of written) {
  const gzip = gzipSync(bytes, { level: 9 })
  const brotli = brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } })
  writeFileSync(path.join(fresh, name), bytes)
  writeFileSync(path.join(fresh, `${name}.gz`), gzip)
  writeFileSync(path.join(fresh, `${name}.br`), brotli)
  files[name] = { type: TYPES[path.extname(name)], size_bytes: bytes.length, gzip_bytes: gzip.length }
}
const app = outputOf('src/plugins/page/browser/app.tsx')
const manifest = {
  app,
  style: outputOf('src/plugins/page/browser/style/main.css'),
  feed: outputOf('src/plugins/page/browser/data/feed-worker.ts'),
  first_load: loadedWith(app),
  files,
}
writeFileSync(path.join(fresh, 'manifest.json'), `${JSON.stringify(manifest, null, 2)}\n`)

rmSync(TARGET, { recursive: true, force: true })
renameSync(fresh, TARGET)

/** File name of an entry point's bundle. */
function outputOf(entry) {
  const found = Object.entries(metafile.outputs).find(([, { entryPoint }]) => entryPoint === entry)
  return path.basename(found[0])
}

/** The scripts that a first visit loads: the entry and what it imports statically. */
function loadedWith(name) {
  const seen = new Set()
  const waiting = [name]
  for (const next of waiting) {
    if (seen.has(next)) continue
    seen.add(next)
    const [, { imports }] = Object.entries(metafile.outputs).find(([file]) => path.basename(file) === next)
    for (const { path: file, kind } of imports) if (kind === 'import-statement') waiting.push(path.basename(file))
  }
  return [...seen]
}

/** Licences of the packages that are in the bundle, with their texts. */
function licenses(inputs) {
  const packages = new Set(
    inputs.flatMap((input) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input)?.[1] ?? []).sort(),
  )
  const texts = [...packages].map((name) => {
    const folder = path.join(ROOT, 'node_modules', name)
    const { version, license } = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'))
    const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry))
    const text =
      file === undefined || !existsSync(path.join(folder, file)) ? '' : readFileSync(path.join(folder, file), 'utf8')
    return `${name} ${version} (${license})\n\n${text.trim()}\n`
  })
  return `Packages in this bundle, with their licences.\n\n${texts.join(`\n${'-'.repeat(80)}\n\n`)}`
}
