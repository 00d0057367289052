/**
 * What training measures, for programs that draw curves: job metrics for Prometheus (`--job-metrics`), and numbers sent to
 * MLflow or written for TensorBoard (`--report`). Nothing of it is loaded unless asked for.
 */
import { definePlugin } from '#service/define-plugin.js'
import { metricsExportSettings } from './settings.js'

export const metricsExport = definePlugin({
  name: 'metrics-export',
  settings: metricsExportSettings,
  start: async (core) => {
    if (core.settings.jobMetrics) (await import('./gauges.js')).addJobGauges(core)
    if (core.settings.report.length > 0) await (await import('./reporter.js')).startReporter(core)
  },
})
