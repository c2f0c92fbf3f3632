module robfig

go 1.24

require (
	github.com/robfig/cron v1.2.0
	github.com/robfig/cron/v3 v3.0.1
)
