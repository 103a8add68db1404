// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"text/template"

	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/dynamicwatcher/values"
	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/examples/internal/boundtemplate"
	"github.com/spokewire/sdk-go/examples/internal/label"
	"github.com/spokewire/sdk-go/internal/yamldoc"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/manifestwork"
	"github.com/spokewire/sdk-go/rsync/revisions"
)

// maxBytes is the maximum output of a template.
const maxBytes = boundtemplate.MaxBytes

// An application may render maxApplication bytes, and maxOnCluster more for each cluster.
const (
	maxApplication = 16 << 20
	maxOnCluster   = 64 << 10
)

// Each object takes objectMemory bytes, and manifestCopies times the size of its manifest: 8,000
// objects with 120 bytes each take 19 MiB.
const (
	objectMemory   = 2 << 10
	manifestCopies = 4
)

// Without is the reader of a hub without a cluster.
const Without = values.Without("the hub has no --kubeconfig")

// Check returns an [*manifestwork.InvalidError] for objects that the agent of a cluster cannot receive, or nil.
type Check func(cluster string, resources []appcontext.Resource) error

// Rendering is the result of rendering an application.
type Rendering struct {
	// Content has the objects on clusters, and a [Source].
	revisions.Content
	// Document is the document of the application, in JSON, and Clusters are its clusters.
	Document []byte
	Clusters []*document.Cluster
	// Values are the values that the templates have read, by Ref.String.
	Values map[string]string
	// Memory is the estimated memory of the objects and their works in the hub, in bytes.
	Memory int
	// Resources has the objects on clusters, and On the clusters that have any.
	Resources map[appcontext.Identity]*appcontext.Resource
	On        map[string]bool
}

// Source is the source of a revision.
type Source struct {
	// Document is the document of the application, in JSON.
	Document json.RawMessage `json:"document"`
	// Values are the values of the hub's cluster that its templates have read.
	Values map[string]string `json:"values,omitempty"`
}

// DecodeSource decodes a stored source. It returns err if that is not nil.
func DecodeSource(data []byte, err error) (out Source, _ error) {
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	return out, err
}

// Render renders an application for clusters. The error is a [*document.Error] with the path of the
// template, and also a [*values.MissingError] if that is the cause. The objects of each template and
// cluster are checked, unless check is nil.
func Render(
	d *document.Document, clusters []*document.Cluster, objects values.Reader, check Check,
) (*Rendering, error) {
	if check == nil {
		check = func(string, []appcontext.Resource) error { return nil }
	}
	application := d.Object.(*document.Application)
	r := &renderer{
		where: d.Where, objects: objects, check: check, values: map[string]string{},
		meter: boundtemplate.New(clock.RealClock{}, boundtemplate.StepsOf(len(clusters))),
		left:  maxApplication + len(clusters)*maxOnCluster,
	}
	out := &Rendering{Document: d.JSON, Clusters: clusters, Values: r.values}
	out.Source = Source{d.JSON, r.values}
	for i := range application.Spec.Parts {
		app, err := r.part(i, d.Name, &application.Spec.Parts[i], clusters)
		if err != nil {
			return nil, err
		}
		out.Apps = append(out.Apps, app)
	}
	if err := appcontext.Validate(&appcontext.AppContext{ID: d.Name, Apps: out.Apps}); err != nil {
		return nil, &document.Error{Where: d.Where, Field: "spec.parts", Problem: err.Error()}
	}
	out.Memory, out.Resources, out.On = r.memory, maps.Collect(appcontext.Resources(out.Apps)), map[string]bool{}
	for id := range out.Resources {
		out.On[id.Cluster.Name] = true
	}
	return out, nil
}

type renderer struct {
	where   string
	objects values.Reader
	check   Check
	values  map[string]string
	meter   *boundtemplate.Meter
	left    int // remaining bytes of manifests
	memory  int
}

func (r *renderer) part(
	i int, application string, p *document.Part, clusters []*document.Cluster,
) (appcontext.App, error) {
	app := p.App()
	templates := make([]*template.Template, len(p.Manifests))
	path := func(j int) string { return fmt.Sprintf("spec.parts[%d].manifests[%d].template", i, j) }
	for j, m := range p.Manifests {
		t, err := template.New("template").Option("missingkey=error").Funcs(r.functions()).Parse(m.Template)
		if err != nil {
			return app, r.failed(path(j), "", err)
		}
		templates[j] = t
		r.meter.Instrument(templates[j], m.Template)
	}
	for _, c := range clusters {
		cluster := appcontext.Cluster{ClusterID: document.ClusterID(c.Metadata.Name)}
		variables := map[string]any{
			"Application": application,
			"Cluster":     map[string]any{"Name": c.Metadata.Name, "Labels": maps.Clone(c.Metadata.Labels)},
		}
		for j, m := range p.Manifests {
			text := limited{left: maxBytes}
			r.meter.Begin()
			err := templates[j].Execute(&text, variables)
			before := len(cluster.Resources)
			if err == nil {
				cluster.Resources, err = objectsIn(cluster.Resources, text.Bytes(), application, appcontext.Hook(m.Hook))
			}
			if err == nil {
				err = r.spend(cluster.Resources[before:], len(clusters))
			}
			if err == nil {
				err = r.checked(c.Metadata.Name, cluster.Resources[before:])
			}
			if err != nil {
				return app, r.failed(path(j), c.Metadata.Name, err)
			}
		}
		app.Clusters = append(app.Clusters, cluster)
	}
	return app, nil
}

// spend limits the size of all manifests of the application.
func (r *renderer) spend(made []appcontext.Resource, clusters int) error {
	for i := range made {
		r.left -= len(made[i].Manifest)
		r.memory += objectMemory + manifestCopies*len(made[i].Manifest)
	}
	if r.left < 0 {
		return fmt.Errorf("the application makes more than %d bytes for %d clusters",
			maxApplication+clusters*maxOnCluster, clusters)
	}
	return nil
}

// checked checks the objects of a template. If any template has read a Secret, the errors contain
// no values.
func (r *renderer) checked(cluster string, made []appcontext.Resource) error {
	if len(made) == 0 {
		return nil
	}
	err := r.check(cluster, made)
	var invalid *manifestwork.InvalidError
	if !errors.As(err, &invalid) {
		return err
	}
	text := invalid.Text
	for ref := range r.values {
		if strings.HasPrefix(ref, values.KindSecret+" ") {
			text = invalid.Reason + " (the details may contain values of Secrets and are not shown)"
		}
	}
	if invalid.Field != "" {
		text = invalid.Field + ": " + text
	}
	if invalid.Resource >= 0 {
		text = made[invalid.Resource].String() + ": " + text
	}
	return errors.New(text)
}

// failed returns the error of a template, with its position and the cluster.
func (r *renderer) failed(path, cluster string, err error) error {
	problem := strings.TrimPrefix(err.Error(), "template: ")
	if long := (*boundtemplate.LimitError)(nil); errors.As(err, &long) && long.Line != 0 {
		problem = long.Error() // without the inserted call
	}
	if cluster != "" {
		problem = "for the cluster " + cluster + ": " + problem
	}
	out := &document.Error{Where: r.where, Field: path, Problem: problem}
	var missing *values.MissingError
	if errors.As(err, &missing) {
		return &missingIn{out, missing}
	}
	return out
}

// missingIn is a [*values.MissingError] with the text of the error of its template, which includes its own
// text.
type missingIn struct {
	in      *document.Error
	missing *values.MissingError
}

func (e *missingIn) Error() string   { return e.in.Error() }
func (e *missingIn) Unwrap() []error { return []error{e.in, e.missing} }

var yamlLine = regexp.MustCompile(`line \d+`)

// objectsIn adds the objects of a text to resources. Errors contain nothing of the text, which may
// contain secrets.
func objectsIn(
	resources []appcontext.Resource, text []byte, application string, hook appcontext.Hook,
) ([]appcontext.Resource, error) {
	for part, err := range yamldoc.Split(text) {
		if err != nil {
			return nil, err
		}
		manifest, err := part.StrictJSON()
		if errors.As(err, new(*yamldoc.LimitError)) {
			return nil, err
		}
		if err != nil {
			problem := "its output is not valid YAML"
			if line := yamlLine.FindString(err.Error()); line != "" {
				problem += ", at " + line + " of an object"
			}
			return nil, errors.New(problem)
		}
		if string(manifest) == "null" {
			continue
		}
		object, err := appcontext.ParseObject(manifest)
		if err != nil {
			return nil, err
		}
		if manifest, err = label.Add(manifest, application); err != nil {
			return nil, err
		}
		resources = append(resources, appcontext.Resource{Object: object, Hook: hook, Manifest: manifest})
	}
	return resources, nil
}

// limited is a buffer with a maximum size.
type limited struct {
	bytes.Buffer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, boundtemplate.ErrTooMuch()
	}
	return l.Buffer.Write(p)
}

// Installs reports whether an object exists while the application is installed.
func (r *Rendering) Installs(id appcontext.Identity) bool {
	resource := r.Resources[id]
	return resource != nil && resource.Installed()
}

func (r *renderer) functions() template.FuncMap {
	out := r.meter.Functions()
	out["fromSecret"], out["fromConfigMap"] = r.from(values.KindSecret), r.from(values.KindConfigMap)
	return out
}

func (r *renderer) from(kind string) func(namespace, name, key string) (string, error) {
	return func(namespace, name, key string) (value string, err error) {
		ref := values.Ref{Kind: kind, Namespace: namespace, Name: name, Key: key}
		if value, ok := r.values[ref.String()]; ok {
			return value, nil
		}
		r.meter.Wait(func() { value, err = r.objects.Value(ref) })
		if err == nil {
			r.values[ref.String()] = value
		}
		return value, err
	}
}
