/**
 * Entry of the thread that reads large bodies, those of plugins too.
 */
import { loadServed } from '#service/assembly/plugins.js'
import { readBodies } from '#service/bodies/read-bodies.js'
import { INSTALLED } from './index.js'

readBodies((await loadServed(INSTALLED.plugins)).bodyOf)
