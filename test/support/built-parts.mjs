/**
 * What plugins add to the database and to the bodies of requests, for stand-ins and benches that work by the build.
 */
import { INSTALLED } from '../../dist/src/plugins/index.js'
import { loadServed } from '../../dist/src/service/assembly/plugins.js'
import { loadSchemaParts } from '../../dist/src/service/plugin.js'

export const parts = await loadSchemaParts(INSTALLED.plugins)
export const { bodyOf } = await loadServed(INSTALLED.plugins)
