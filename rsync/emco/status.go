// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package emco

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/store"
)

// markerLevel is a key of this package for the last written status. EMCO deletes it with the
// context.
const markerLevel = "rsync/engine/"

// marker is the value of markerLevel. Each write of statuses puts it, so writers exclude each
// other.
type marker struct {
	// By is the ID of the context of the last written status.
	By string `json:"by"`
	// Transitions and Seq belong to the engine's status that was written: the number of its state
	// changes, and its last event that has ended. They are 0 while an event is in progress.
	Transitions uint64 `json:"transitions,omitempty"`
	Seq         uint64 `json:"seq,omitempty"`
}

// markerOf returns the marker of a status. Transitions and Seq are 0 if events are in progress.
func markerOf(s *rsync.Status) marker {
	m := marker{By: s.ID, Transitions: s.Transitions}
	for i := range s.Queue {
		if !s.Queue[i].Status.Final() {
			return marker{By: s.ID}
		}
		m.Seq = max(m.Seq, s.Queue[i].Seq)
	}
	return m
}

// EMCO's words.
const (
	resourceApplied  = "Applied"
	resourceDeleted  = "Deleted"
	resourceFailed   = "Failed"
	resourceRetrying = "Retrying"

	clusterAvailable = "Available"
	clusterRetrying  = "Retrying"
	clusterUnknown   = "Unknown"
)

type statusValue struct{ Status string }

// stateWord returns EMCO's word for a state.
func stateWord(s rsync.State) string {
	switch s {
	case rsync.TerminationFailed:
		return "TerminateFailed"
	case rsync.UpdateFailed:
		return "UpdatedFailed"
	}
	return string(s)
}

// resourceWord returns EMCO's word for the resources of an app on a cluster, or "" if the word does
// not change.
func resourceWord(c *rsync.ClusterStatus) string {
	switch {
	case c.Event == rsync.Read:
		return ""
	case c.Phase == rsync.PhaseRetrying:
		return resourceRetrying
	case c.Phase == rsync.PhaseFailed, c.Reason == rsync.ReasonDetached:
		return resourceFailed
	case c.Event == rsync.Terminate, c.Event == rsync.UpdateDelete:
		return resourceDeleted
	}
	return resourceApplied
}

func clusterWord(c *rsync.ClusterStatus) string {
	switch {
	case c.Reason == rsync.ReasonDetached:
		return clusterUnknown
	case c.Reason == rsync.ReasonUnreachable:
		return clusterRetrying
	}
	return clusterAvailable
}

// view has EMCO's keys of a context.
type view struct {
	root string
	keys map[string]store.KeyValue
	// statusRoot has the statuses of resources. After an update EMCO reads them from the first
	// context.
	statusRoot string
	statusKeys map[string]store.KeyValue
}

func jsonOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil { // the types are all of this package
		panic(err)
	}
	return string(text)
}

// change is a key to put.
type change struct{ key, value string }

// changes returns the writes that make EMCO read a status, in the order in which they must be put.
func (v *view) changes(s *rsync.Status) []change {
	d := &diff{view: v}
	for i := range s.Clusters {
		d.cluster(s, &s.Clusters[i])
	}
	state := jsonOf(statusValue{stateWord(s.State)})
	d.put(v.root+"rsync/state/CurrentState/", state)
	d.put(v.root+"status/", state)
	return d.out
}

type diff struct {
	view *view
	out  []change
}

// has returns the value of a key.
func (v *view) has(key string) (string, bool) {
	kv, ok := v.keys[key]
	if !ok {
		kv, ok = v.statusKeys[key]
	}
	return string(kv.Value), ok
}

func (d *diff) put(key, value string) {
	if have, ok := d.view.has(key); !ok || have != value {
		d.out = append(d.out, change{key, value})
	}
}

// add puts a key that is missing.
func (d *diff) add(key, value string) {
	if _, ok := d.view.has(key); !ok {
		d.out = append(d.out, change{key, value})
		d.view.statusKeys[key] = store.KeyValue{Key: key, Value: []byte(value)} // for the next resource
	}
}

// cluster puts the statuses of an app on a cluster and of its resources.
func (d *diff) cluster(s *rsync.Status, c *rsync.ClusterStatus) {
	below := "app/" + c.App + "/cluster/" + c.Cluster.String() + "/"
	own := d.view.root + below
	if _, ok := d.view.keys[own]; !ok {
		return // EMCO no longer has it
	}
	word := resourceWord(c)
	reference := jsonOf(s.ID)
	shared := d.view.statusRoot + below
	handled := false
	for _, name := range d.view.resources(own) {
		status, ref := shared+"resource/"+name+"/status/", shared+"resource/"+name+"/reference/"
		by, taken := d.view.has(ref)
		if word == "" || taken && by != reference && replaced(s) {
			continue // another context has it now
		}
		handled = true
		d.levels(c, shared, name)
		d.put(status, jsonOf(statusValue{word}))
		d.put(ref, reference)
	}
	d.put(own+"readystatus/", jsonOf(clusterWord(c)))
	if by, taken := d.view.has(shared + "reference/"); handled || !taken || by == reference {
		d.put(shared+"reference/", reference)
	}
}

// replaced reports whether an update has led from the context to another. Until its UpdateDelete
// begins, and if a stop has skipped it, only the queue shows this.
func replaced(s *rsync.Status) bool {
	for _, e := range slices.Backward(s.Queue) {
		if e.Event != rsync.Read && e.Event != rsync.Heal {
			return e.Event == rsync.UpdateDelete
		}
	}
	return s.State == rsync.Updated
}

// levels adds the levels above the status of a resource in the context that has the statuses.
func (d *diff) levels(c *rsync.ClusterStatus, cluster, resource string) {
	if d.view.statusRoot == d.view.root {
		return
	}
	d.add(d.view.statusRoot+"app/"+c.App+"/", jsonOf(c.App))
	d.add(cluster, jsonOf(c.Cluster.String()))
	d.add(cluster+"resource/"+resource+"/", statusOnly)
}

// resources returns the names of the context's own resources on a cluster, in order.
func (v *view) resources(cluster string) []string {
	var out []string
	for key, kv := range v.keys {
		if rest, ok := strings.CutPrefix(key, cluster); ok && isResource(rest) && string(kv.Value) != statusOnly {
			out = append(out, strings.TrimSuffix(strings.TrimPrefix(rest, "resource/"), "/"))
		}
	}
	slices.Sort(out)
	return out
}
