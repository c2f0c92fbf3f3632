// Robfig answers what robfig/cron says: one question a line on standard input, one answer a line on standard output.
package main

import (
	"encoding/json"
	"os"
	"time"

	v1 "github.com/robfig/cron"
	v3 "github.com/robfig/cron/v3"
)

type question struct {
	Version int    // 1: as Kubeflow Pipelines reads it; 3: as Argo Workflows and Kubernetes do
	Cron    string // six fields for 1, five for 3
	Zone    string
	After   int64 // seconds since the epoch
	Count   int
}

type answer struct {
	Fires []int64
	Error string
}

// Both are what the schedulers do: version 3 takes its zone from the expression, version 1 from the time.
func fires(q question) answer {
	zone, err := time.LoadLocation(q.Zone)
	if err != nil {
		return answer{Error: err.Error()}
	}
	next, at := func(time.Time) time.Time { return time.Time{} }, time.Unix(q.After, 0).UTC()
	if q.Version == 3 {
		schedule, err := v3.ParseStandard("CRON_TZ=" + q.Zone + " " + q.Cron)
		if err != nil {
			return answer{Error: err.Error()}
		}
		next = schedule.Next
	} else {
		schedule, err := v1.Parse(q.Cron)
		if err != nil {
			return answer{Error: err.Error()}
		}
		next, at = schedule.Next, at.In(zone)
	}
	found := answer{Fires: []int64{}}
	for i := 0; i < q.Count; i++ {
		if at = next(at); at.IsZero() {
			break
		}
		found.Fires = append(found.Fires, at.Unix())
	}
	return found
}

func main() {
	questions, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for questions.More() {
		var q question
		if err := questions.Decode(&q); err != nil {
			panic(err)
		}
		if err := answers.Encode(fires(q)); err != nil {
			panic(err)
		}
	}
}
