/**
 * What plugins add to the database, for stand-ins and benches that open one by the build.
 */
import { INSTALLED } from '../../dist/src/plugins/index.js'
import { loadSchemaParts } from '../../dist/src/service/plugin.js'

export const parts = await loadSchemaParts(INSTALLED.plugins)
