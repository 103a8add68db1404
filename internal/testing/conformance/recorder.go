// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// Target is the clientsets and the environment that the scripts run on.
type Target struct {
	// Hub is the clientset for the owner of works, and Spoke is the clientset for their agent. On
	// an API server they are the same clientset.
	Hub, Spoke worktyped.WorkV1Interface
	// Namespace makes a namespace and returns its name. With a source, an agent serves the
	// namespace.
	Namespace func() string
	// Settle waits until the writes of each side have reached the other side and their results have
	// returned. It also waits until deleted works without a remaining finalizer are gone.
	Settle func()
	// Age discards the history that watches and lists of earlier versions use. The client stays.
	Age func()
}

// Script is a series of calls.
type Script struct {
	Name string
	Run  func(*Recorder)
	// Cleans is true if the script acts as the controller that cleans up on the spoke. Otherwise
	// Settle acts as a controller with nothing to clean up.
	Cleans bool
	// Ages is true if the script calls Age. No other script may run at the same time.
	Ages bool
}

// Recorder writes the transcript of one script.
type Recorder struct {
	Target
	ctx   context.Context
	ns    string
	lines []string
	uids  map[types.UID]string // incarnations, counted by name
	count map[string]int
	last  map[types.UID]string // resourceVersion
	names map[string]string    // names of namespaces in the transcript
	// watches end with the script.
	watches []watch.Interface
}

// Run runs a script and returns its transcript. Each line begins with a label that is unique in it.
func Run(ctx context.Context, t Target, s Script) []string {
	r := &Recorder{
		Target: t, ctx: ctx,
		uids: map[types.UID]string{}, count: map[string]int{}, last: map[types.UID]string{}, names: map[string]string{},
	}
	r.ns = r.namespace("ns")
	s.Run(r)
	for _, w := range r.watches {
		w.Stop()
	}
	return r.lines
}

func (r *Recorder) namespace(shown string) string {
	ns := r.Target.Namespace()
	r.names[ns] = shown
	return ns
}

// reads is a script that reads through one of the two clientsets. It writes through the hub's
// clientset.
type reads struct {
	*Recorder
	set worktyped.WorkV1Interface
}

func (r *reads) works() worktyped.ManifestWorkInterface { return r.set.ManifestWorks(r.ns) }

// watch begins a watch that ends with the script. If there is an error, watch records it and
// returns a watch without events.
func (r *reads) watch(ctx context.Context, label string, o metav1.ListOptions) watch.Interface {
	w, err := r.works().Watch(ctx, o)
	if err != nil {
		r.err(label, err)
		return watch.NewEmptyWatch()
	}
	r.watches = append(r.watches, w)
	return w
}

func throughHub(f func(*reads)) func(*Recorder)   { return func(r *Recorder) { f(&reads{r, r.Hub}) } }
func throughSpoke(f func(*reads)) func(*Recorder) { return func(r *Recorder) { f(&reads{r, r.Spoke}) } }

func (r *Recorder) hub() worktyped.ManifestWorkInterface   { return r.Hub.ManifestWorks(r.ns) }
func (r *Recorder) spoke() worktyped.ManifestWorkInterface { return r.Spoke.ManifestWorks(r.ns) }

// object records the result of a call.
func (r *Recorder) object(label string, obj *workv1.ManifestWork, err error) *workv1.ManifestWork {
	if err != nil {
		r.err(label, err)
		return nil
	}
	r.line(label, r.describe(obj))
	return obj
}

// onHub records the hub's work "app", without its UID and version, which differ on each side.
func (r *Recorder) onHub(label string) {
	obj, err := r.hub().Get(r.ctx, "app", metav1.GetOptions{})
	if err != nil {
		r.err(label, err)
		return
	}
	data, err := json.Marshal(map[string]any{"labels": obj.Labels, "spec": canonical(obj.Spec),
		"status": canonical(obj.Status)})
	if err != nil {
		r.err(label, err)
		return
	}
	r.line(label, string(data))
}

// err records an error, or success.
func (r *Recorder) err(label string, err error) { r.line(label, r.describeError(err)) }

// list records the names in a list and whether the list continues.
func (r *Recorder) list(label string, l *workv1.ManifestWorkList, err error) *workv1.ManifestWorkList {
	if err != nil {
		r.err(label, err)
		return nil
	}
	names := []string{}
	for i := range l.Items {
		names = append(names, r.names[l.Items[i].Namespace]+"/"+l.Items[i].Name)
	}
	more := ""
	if l.Continue != "" {
		more = " more"
		if l.RemainingItemCount != nil {
			more = fmt.Sprintf(" more=%d", *l.RemainingItemCount)
		}
	}
	r.line(label, fmt.Sprintf("%v%s version=%t", names, more, l.ResourceVersion != ""))
	return l
}

var (
	generated = regexp.MustCompile(`([Gg]en[-_])[a-z0-9]{5}\b`)
	times     = regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
)

func (r *Recorder) line(label, text string) {
	for ns, shown := range r.names {
		text = strings.ReplaceAll(text, ns, shown)
	}
	text = generated.ReplaceAllString(text, "$1*****")
	if strings.Contains(text, "immutable") {
		text = times.ReplaceAllString(text, "<time>")
	}
	r.lines = append(r.lines, label+": "+text)
}

// describe returns an object as text, without values that differ in each run.
func (r *Recorder) describe(obj *workv1.ManifestWork) string {
	out := []string{obj.Namespace + "/" + obj.Name}
	add := func(name string, value any) {
		data, err := json.Marshal(value)
		if err != nil {
			data = []byte(err.Error())
		}
		if s := string(data); s != "null" && s != "{}" && s != "[]" {
			out = append(out, name+"="+s)
		}
	}
	if _, ok := r.uids[obj.UID]; !ok {
		key := obj.Namespace + "/" + generated.ReplaceAllString(obj.Name, "$1")
		r.count[key]++
		r.uids[obj.UID] = fmt.Sprint(r.count[key])
	}
	version := "new"
	if last, ok := r.last[obj.UID]; ok && last == obj.ResourceVersion {
		version = "same"
	}
	r.last[obj.UID] = obj.ResourceVersion
	out = append(out, "uid="+r.uids[obj.UID], "version="+version,
		fmt.Sprintf("generation=%d created=%t", obj.Generation, !obj.CreationTimestamp.IsZero()))
	if obj.DeletionTimestamp != nil {
		grace := "none"
		if g := obj.DeletionGracePeriodSeconds; g != nil {
			grace = fmt.Sprint(*g)
		}
		out = append(out, "deleting grace="+grace)
	}
	if obj.GenerateName != "" {
		add("generateName", obj.GenerateName)
	}
	if link := obj.GetSelfLink(); link != "" {
		add("selfLink", link)
	}
	add("labels", obj.Labels)
	add("annotations", obj.Annotations)
	add("finalizers", shown(obj))
	add("owners", obj.OwnerReferences)
	add("spec", canonical(obj.Spec))
	add("status", canonical(obj.Status))
	return strings.Join(out, " ")
}

// shown returns the finalizers of an object, without the finalizer that a source shows on every
// work in deletion. See the differences in the doc of package work.
func shown(obj *workv1.ManifestWork) []string {
	if obj.DeletionTimestamp == nil {
		return obj.Finalizers
	}
	return slices.DeleteFunc(slices.Clone(obj.Finalizers),
		func(f string) bool { return f == workv1.ManifestWorkFinalizer })
}

// canonical decodes and encodes a value, which sorts the keys of raw manifests.
func canonical(v any) any {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	var out any
	if err := json.Unmarshal(data, &out); err != nil {
		return err.Error()
	}
	return prune(out)
}

// prune removes empty objects, which the API server does not keep for optional structs.
func prune(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	for k, e := range m {
		e = prune(e)
		if inner, ok := e.(map[string]any); ok && len(inner) == 0 {
			delete(m, k)
			continue
		}
		m[k] = e
	}
	return m
}

func (r *Recorder) describeError(err error) string {
	if err == nil {
		return "ok"
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return fmt.Sprintf("error %q", err.Error())
	}
	s := status.Status()
	out := []string{fmt.Sprintf("error %s code=%d", s.Reason, s.Code)}
	if s.Continue != "" {
		out = append(out, "continue")
	}
	if d := s.Details; d != nil {
		out = append(out, fmt.Sprintf("details=%s/%s %q", d.Group, d.Kind, d.Name))
		if d.RetryAfterSeconds != 0 {
			out = append(out, fmt.Sprintf("retry=%d", d.RetryAfterSeconds))
		}
		causes := []string{} // sorted here: the API server's validator walks maps
		for _, c := range d.Causes {
			if c.Field == "patch" {
				c.Message = "" // it quotes the whole patched object
			}
			causes = append(causes, fmt.Sprintf("cause=%s %s %q", c.Type, c.Field, c.Message))
		}
		slices.Sort(causes)
		out = append(out, causes...)
	}
	return strings.Join(out, " ")
}

// simple returns a work with one ConfigMap.
func simple(name, value string) *workv1.ManifestWork {
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: name}}
	w.Spec.Workload.Manifests = manifests(
		fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"cm"},"data":{"value":%q}}`, value))
	return w
}

func manifests(raws ...string) []workv1.Manifest {
	var out []workv1.Manifest
	for _, raw := range raws {
		var m workv1.Manifest
		m.Raw = []byte(raw)
		out = append(out, m)
	}
	return out
}

func with(w *workv1.ManifestWork, edit func(*workv1.ManifestWork)) *workv1.ManifestWork {
	edit(w)
	return w
}
