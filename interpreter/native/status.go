// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/spokewire/sdk-go/internal/jsontext"
	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/internal/aggregate"
)

// TemplateGenerationAnnotation has the generation of the object in the control plane. The control
// plane sets the annotation on the objects that it applies to clusters.
const TemplateGenerationAnnotation = "resourcetemplate.karmada.io/generation"

// replacedStatus is HandlerFor.DropUncertain of kinds with aggregated lists without a unique key: the
// elements from the clusters replace those of the list.
const replacedStatus = true

// statusKind is the part of an object that InterpretStatus returns.
type statusKind int

const (
	noStatus         statusKind = iota
	plainStatus                 // .status unchanged
	generationStatus            // .status with generation and resourceTemplateGeneration
)

// reflectStatus keeps unknown fields.
func reflectStatus(kind statusKind, r *interpreter.Request) interpreter.Response {
	var meta struct {
		Metadata struct {
			Generation  int64             `json:"generation"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if err := r.Decode(&meta); err != nil {
		return interpreter.Errored(http.StatusBadRequest, err)
	}
	status := bytes.TrimSpace(jsontext.Member(r.Object.Raw, "status"))
	switch jsontext.KindOf(status) {
	case jsontext.Object:
	case jsontext.Null, jsontext.Invalid:
		status = []byte("{}")
	default:
		return interpreter.Errored(http.StatusBadRequest, errors.New("request.object.status is not a JSON object"))
	}
	out := interpreter.Succeeded("")
	out.RawStatus = &runtime.RawExtension{Raw: bytes.Clone(status)}
	if kind != generationStatus {
		return out
	}
	g := aggregate.Generations{Generation: meta.Metadata.Generation}
	if n, err := strconv.ParseInt(meta.Metadata.Annotations[TemplateGenerationAnnotation], 10, 64); err == nil {
		g.ResourceTemplateGeneration = n
	}
	out.RawStatus.Raw = withGenerations(status, g)
	return out
}

// isObserved reports whether a status is about the newest object. An object without a generation is
// a manifest with the status from a cluster: its generation there is unknown.
func isObserved(observed, generation int64) bool {
	return observed == generation || generation == 0
}

// withGenerations adds members at the end of a status.
func withGenerations(status []byte, g aggregate.Generations) []byte {
	out := bytes.Clone(bytes.TrimRight(status[:len(status)-1], " \t\r\n"))
	add := func(name string, n int64) {
		if n == 0 || jsontext.Member(status, name) != nil {
			return
		}
		if out[len(out)-1] != '{' {
			out = append(out, ',')
		}
		out = strconv.AppendInt(append(strconv.AppendQuote(out, name), ':'), n, 10)
	}
	add("generation", g.Generation)
	add("resourceTemplateGeneration", g.ResourceTemplateGeneration)
	return append(out, '}')
}

// eachStatus decodes the statuses of clusters and calls f with each. It skips clusters without a
// status, and returns the number of calls.
func eachStatus[S any](items []interpreter.AggregatedStatusItem, f func(cluster string, s *S)) (int, error) {
	n := 0
	for i, item := range items {
		if item.Status == nil || jsontext.KindOf(item.Status.Raw) != jsontext.Object {
			continue
		}
		s := new(S)
		if err := jsontext.Decode(item.Status.Raw, s); err != nil {
			return n, &interpreter.RequestError{Code: http.StatusBadRequest,
				Field:   fmt.Sprintf("request.aggregatedStatus[%d]", i),
				Problem: fmt.Sprintf("of cluster %q does not fit %T", item.ClusterName, *s), Err: err}
		}
		n++
		f(item.ClusterName, s)
	}
	return n, nil
}

// count adds the number of a cluster. The sum is limited to the range of int32.
func count(sum *int32, n int32) {
	*sum = int32(max(math.MinInt32, min(math.MaxInt32, int64(*sum)+int64(n))))
}

// aggregateStatus calls add with the status of each cluster. It returns the observed generation and the
// conditions for the aggregated status of a kind with a generation.
func aggregateStatus[S, C any](
	generation, before int64, list []C, items []interpreter.AggregatedStatusItem, add func(cluster string, s *S),
) (int64, []C, error) {
	if _, err := eachStatus(items, add); err != nil {
		return before, list, err
	}
	list, err := conditions(list, items)
	if err != nil {
		return before, list, err
	}
	reported := make([]aggregate.Generations, 0, len(items))
	_, err = eachStatus(items, func(_ string, g *aggregate.Generations) { reported = append(reported, *g) })
	return aggregate.Observed(generation, before, len(items), reported), list, err
}
