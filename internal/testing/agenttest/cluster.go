// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package agenttest has a work agent for tests. The agent applies to a cluster in memory, which
// outlives it and records the changes of each object. It accepts any ManifestWork clientset.
//
//	cluster := agenttest.NewCluster()
//	go agenttest.Run(ctx, cluster, clientset, "cluster1") // again after a restart
//	…
//	cluster.Objects()  // the objects that exist
//	cluster.Calls()    // creates, updates and deletes, in order
//	cluster.Problems() // mistakes of the author of the works
package agenttest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	workv1 "open-cluster-management.io/api/work/v1"
)

// object is an object on the cluster.
type object struct {
	content any
	work    string // the work that applied it
}

// Cluster is a cluster in memory, with the state that an agent keeps of it. Its methods may be
// called concurrently.
type Cluster struct {
	mu       sync.Mutex
	objects  map[string]object
	applied  map[string][]string // by work
	calls    []string
	problems []string
	refuse   func(object string) string
	report   func(object string, m *workv1.ManifestCondition)
	agents   map[*agent]bool // running agents
}

// NewCluster returns a Cluster without objects.
func NewCluster() *Cluster {
	return &Cluster{objects: map[string]object{}, applied: map[string][]string{}, agents: map[*agent]bool{}}
}

// Refuse makes the cluster refuse to apply some objects. reason receives a name, for example
// "ConfigMap default/a", and returns the error, or "" to accept the object.
func (c *Cluster) Refuse(reason func(object string) string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = reason
}

// Report changes the conditions that the agent reports of objects, for example of "Job default/a",
// now and later.
func (c *Cluster) Report(change func(object string, m *workv1.ManifestCondition)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report = change
	for a := range c.agents {
		for _, key := range a.store.ListKeys() {
			a.queue.Add(key)
		}
	}
}

// reported returns the condition that an agent reports of an object.
func (c *Cluster) reported(object string, m workv1.ManifestCondition) workv1.ManifestCondition {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.report != nil {
		c.report(object, &m)
	}
	return m
}

// serve registers an agent until end is called.
func (c *Cluster) serve(a *agent) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.agents[a] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.agents, a)
	}
}

// Objects returns the data of each object: the values of its data field in the order of their keys,
// or otherwise the whole object in JSON.
func (c *Cluster) Objects() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]string{}
	for name, o := range c.objects {
		content := o.content
		if members, ok := content.(map[string]any); ok && members["data"] != nil {
			content = members["data"]
		}
		text, err := json.Marshal(content)
		if err != nil {
			text = []byte(err.Error())
		}
		out[name] = string(text)
	}
	return out
}

// Calls returns the changes, in order: "create ConfigMap default/a", "update …", "delete …".
func (c *Cluster) Calls() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

// Problems returns the mistakes in the works: objects that are in more than one work.
func (c *Cluster) Problems() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.problems)
}

// header is the part of an object that names it.
type header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
}

func (h *header) String() string {
	return h.Kind + " " + h.Metadata.Namespace + "/" + h.Metadata.Name
}

func (h *header) group() string {
	group, _, ok := strings.Cut(h.APIVersion, "/")
	if !ok {
		return ""
	}
	return group
}

// apply creates or updates an object of a work on the cluster.
func (c *Cluster) apply(work string, raw []byte) (header, error) {
	var h header
	var content any
	if err := json.Unmarshal(raw, &h); err != nil {
		return h, err
	}
	if err := json.Unmarshal(raw, &content); err != nil {
		return h, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	name := h.String()
	if c.refuse != nil {
		if reason := c.refuse(name); reason != "" {
			return h, fmt.Errorf("%s", reason)
		}
	}
	before, there := c.objects[name]
	switch {
	case !there:
		c.calls = append(c.calls, "create "+name)
	case before.work != work:
		c.problems = append(c.problems, fmt.Sprintf("%s is of the work %s, and also in %s", name, before.work, work))
		return h, nil
	case reflect.DeepEqual(before.content, content):
		return h, nil
	default:
		c.calls = append(c.calls, "update "+name)
	}
	c.objects[name] = object{content, work}
	if !slices.Contains(c.applied[work], name) {
		c.applied[work] = append(c.applied[work], name)
	}
	return h, nil
}

// prune deletes the objects of a work that are not in keep.
func (c *Cluster) prune(work string, keep map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var left []string
	for _, name := range c.applied[work] {
		if keep[name] {
			left = append(left, name)
			continue
		}
		if c.objects[name].work == work {
			delete(c.objects, name)
			c.calls = append(c.calls, "delete "+name)
		}
	}
	c.applied[work] = left
	if len(left) == 0 {
		delete(c.applied, work)
	}
}
