/**
 * Entry of the thread that reads large bodies, those of plugins too.
 */
import { workerData } from 'node:worker_threads'
import { loadServed } from '#service/assembly/plugins.js'
import { readBodies } from '#service/bodies/read-bodies.js'
import { installed, loadOthers } from './others.js'

await loadOthers((workerData as { readonly pluginFiles: readonly string[] }).pluginFiles)
readBodies(await loadServed(installed().plugins))
