/**
 * The core knows no plugin: it imports none, and names none. A plugin is a folder with a manifest that the list has, and imports no other
 * but those that its manifest needs.
 *
 * `plugins.json` lists the lines of the core that still have a plugin's name in them, with how many: the list only shrinks. Words of other APIs that
 * happen to be the same stand in `words` of the plugin, and are no names.
 */
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { INSTALLED } from '#plugins/index.js'
import { ROOT, readSourceTree, roomOf } from './source-tree.js'

interface Names {
  /** Plugin → patterns of what it is called, where its name is also a word of the core. Default: its name. */
  readonly called: Readonly<Record<string, readonly string[]>>
  /** Plugin → what of its name is somebody else's word, with the reason. */
  readonly words: Readonly<Record<string, readonly { readonly word: string; readonly reason: string }[]>>
  /** `file` → lines that name the plugin. */
  readonly named: Readonly<Record<string, Readonly<Record<string, number>>>>
}

const names = JSON.parse(readFileSync(path.join(import.meta.dirname, 'plugins.json'), 'utf8')) as Names
const files = readSourceTree()
const inFolder = files.filter(({ path: file }) => /^src\/plugins\/[^/]+\//.test(file))
const folders = [...new Set(inFolder.map(({ path: file }) => file.split('/')[2] ?? ''))].sort()
/** All but plugins, what browsers run of them, and who lists them. */
const core = files.filter(({ path: file }) => !['plugins', 'browser'].includes(roomOf(file)))

/** Lines of the core that name a plugin, by file. */
function linesNaming(plugin: string): Readonly<Record<string, number>> {
  const called = new RegExp((names.called[plugin] ?? [plugin]).join('|'), 'i')
  const found = core.map(({ path: file, text }) => {
    const rest = (names.words[plugin] ?? []).reduce((left, { word }) => left.replaceAll(word, ''), text)
    return [file, rest.split('\n').filter((line) => called.test(line)).length] as const
  })
  return Object.fromEntries(found.filter(([, count]) => count > 0))
}

describe('plugins', () => {
  test('are folders with a manifest, each in the list under its own name', () => {
    expect(folders.length).toBeGreaterThan(0)
    expect(INSTALLED.plugins.map(({ name }) => name).sort()).toEqual(folders)
    expect(folders.filter((name) => !readdirSync(path.join(ROOT, 'src/plugins', name)).includes('plugin.ts'))).toEqual(
      [],
    )
  })

  test('are imported by their own folder, who needs them and the list alone, and the list takes manifests', () => {
    const others = files.flatMap(({ path: file, imports }) =>
      imports.flatMap(({ target }) => {
        const plugin = /^src\/plugins\/([^/]+)\//.exec(target ?? '')?.[1]
        if (plugin === undefined || file.startsWith(`src/plugins/${plugin}/`)) return []
        // what programs use of it
        if (file === 'src/rl.ts' && (plugin === 'rl-library' || target?.endsWith('/library.ts') === true)) return []
        // which does nothing without it
        const own = INSTALLED.plugins.find(({ name }) => file.startsWith(`src/plugins/${name}/`))
        if (own?.needs?.includes(plugin) === true) return []
        return file === 'src/plugins/index.ts' && target?.endsWith('/plugin.ts') === true ? [] : [`${file} → ${target}`]
      }),
    )
    expect(others).toEqual([])
  })

  test('have small manifests: what is behind them is loaded when it is asked for', () => {
    const manifests = inFolder.filter(({ path: file }) => file.split('/')[3] === 'plugin.ts')
    const eager = manifests.flatMap(({ path: file, imports }) =>
      imports
        .filter(
          ({ isDynamic, isTypeOnly, target }) =>
            !isDynamic &&
            !isTypeOnly &&
            // rows of settings are read with the manifest; in a file of their own, where code needs their types
            target !== file.replace(/plugin\.ts$/, 'settings.ts') &&
            target !== 'src/service/define-plugin.ts',
        )
        .map(({ specifier }) => `${file} imports ${specifier}`),
    )
    expect(manifests.length).toBe(folders.length)
    expect(eager).toEqual([])
  })

  test.each(folders)('%s is named by no more lines of the core than were', (plugin) => {
    expect(linesNaming(plugin)).toEqual(names.named[plugin] ?? {})
  })

  test('have no word excused that nobody says', () => {
    const idle = Object.entries(names.words).flatMap(([plugin, words]) =>
      words.filter(({ word }) => !core.some(({ text }) => text.includes(word))).map(({ word }) => `${plugin}: ${word}`),
    )
    expect(idle).toEqual([])
    expect(
      Object.keys({ ...names.called, ...names.words, ...names.named }).filter((name) => !folders.includes(name)),
    ).toEqual([])
  })
})
