// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package install is the command install of the programs of the examples: it prints or applies the
// manifests with which a program runs in a cluster.
//
//	hub install --image IMAGE [--namespace NAME] [--monitoring] [--apply] -- FLAGS-OF-THE-HUB
//
// The file deployment.yaml has the manifests that all programs share: the Namespace enforces the Pod
// Security Standard restricted, and the Pod meets it. A program adds its own manifests, mainly
// its RBAC, and the defaults of its flags in a Pod.
package install

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/internal/yamldoc"
)

//go:embed deployment.yaml
var shared embed.FS

// separator is between two manifests.
const separator = "---\n"

// Port is a port of a program.
type Port struct {
	Name string
	// Address is the address at which the program listens, :NUMBER, and the value of its flag Flag.
	Address, Flag string
	Number        int // of Address; install sets it
	// Service is the port of the Service. Zero means Number.
	Service int
	// Open lets all clients connect. Otherwise only Prometheus and Pods of the same program can.
	Open bool
}

// Workload describes the Pods of a program with certain flags.
type Workload struct {
	Args  []string
	Ports []Port
	// Database is true if the store is a database, so two Pods run, and false if at most one
	// process may run.
	Database bool
	// Volume is true if the store is on a volume.
	Volume bool
	// API is true if the program uses the API of its own cluster.
	API bool
	// Broker is true if files of the Secret NAME-broker are in the folder /broker.
	Broker bool
	// HTTPS is true if the first port uses TLS, and MetricsLogin if its metrics need a login.
	HTTPS, MetricsLogin bool
	// Live and Grace are the path of the liveness probe, and the time for an end in seconds.
	Live  string
	Grace int
	// Memory is the limit of the memory.
	Memory string
	// Values are for the templates of the program.
	Values any
}

// Program is a program that can be installed. O are the values of its own flags of install.
type Program struct {
	Name string
	// Manifests has the templates of the program, *.yaml; rules.yaml with alerts; and dashboards, *.json.
	Manifests fs.FS
	// Flags adds flags of the program to those of install; Usage describes them. Optional.
	Flags func(command.Flags)
	Usage string
	// Workload returns the Pods for flags of the program, or an error if the flags are wrong.
	Workload func(o Options, args []string) (Workload, error)
}

// Options are the flags of install.
type Options struct {
	Name, Namespace, Image string
	Monitoring             bool
	apply                  bool
	kubeconfig             string
}

const usage = `Usage: %[1]s install --image IMAGE [flags] -- FLAGS

Prints manifests that run %[1]s in a cluster with FLAGS, which %[1]s --help describes. Files in FLAGS
are in the folder /credentials: the files of the Secret "%[1]s".

  --image IMAGE        the image of the container (required)
  --namespace NAME     the namespace (default spokewire); it enforces the Pod Security Standard
                       "restricted"
  --monitoring         add a ServiceMonitor and a PrometheusRule for the Prometheus Operator, and
                       dashboards for Grafana; Prometheus runs in the namespace "monitoring"
%[2]s  --apply              apply the manifests to a cluster, instead of printing them
  --kubeconfig FILE    with --apply: the kubeconfig of the cluster (default: as for kubectl)
  --help               show this help

Exit status: 0 after success, 1 after an error, 2 for a wrong command line.
`

// Run prints or applies the manifests. Args are the arguments after "install". It returns the exit
// status.
func (p Program) Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var w Workload
	c := command.Program[Options]{
		Name: p.Name + " install", Usage: fmt.Sprintf(usage, p.Name, p.Usage),
		Parse: func(args []string) (o Options, err error) {
			o, w, err = p.parse(args)
			return o, err
		},
	}
	return c.Run(args, stdout, stderr, func(o Options) error {
		text, err := p.render(o, w)
		if err != nil || !o.apply {
			return errors.Join(err, write(stdout, text))
		}
		return apply(ctx, o, text, stdout)
	})
}

func write(to io.Writer, text []byte) error {
	_, err := to.Write(text)
	return err
}

// parse reads the arguments of install and, after "--", those of the program.
func (p Program) parse(args []string) (Options, Workload, error) {
	o := Options{Name: p.Name}
	own, rest := args, []string(nil)
	if i := slices.Index(args, "--"); i >= 0 {
		own, rest = args[:i], args[i+1:]
	}
	flags := command.NewFlags(p.Name + " install")
	flags.StringVar(&o.Namespace, "namespace", "spokewire", "")
	flags.StringVar(&o.Image, "image", "", "")
	flags.BoolVar(&o.Monitoring, "monitoring", false, "")
	flags.BoolVar(&o.apply, "apply", false, "")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "")
	if p.Flags != nil {
		p.Flags(flags)
	}
	if err := flags.ParseFlags(own); err != nil {
		return o, Workload{}, err
	}
	switch wrong := validation.IsDNS1123Label(o.Namespace); {
	case flags.NArg() > 0:
		return o, Workload{}, fmt.Errorf("unknown argument %q: put the flags of %s after --", flags.Arg(0), p.Name)
	case o.Image == "":
		return o, Workload{}, errors.New("--image is required: the image of the container")
	case len(wrong) > 0:
		return o, Workload{}, fmt.Errorf("--namespace: %q: %s", o.Namespace, wrong[0])
	}
	w, err := p.Workload(o, rest)
	if err != nil {
		return o, Workload{}, fmt.Errorf("after --: %w", err)
	}
	for i := range w.Ports {
		if err := w.Ports[i].check(); err != nil {
			return o, Workload{}, fmt.Errorf("after --: %w", err)
		}
	}
	if o.Monitoring && w.MetricsLogin {
		return o, Workload{}, fmt.Errorf("--monitoring: the metrics of %s need a login: remove the flag", p.Name)
	}
	return o, w, nil
}

// check sets the number of the port.
func (p *Port) check() error {
	host, number, err := net.SplitHostPort(p.Address)
	if err == nil {
		p.Number, err = strconv.Atoi(number)
	}
	if err != nil || host != "" || p.Number < 1 || p.Number > 65535 {
		return fmt.Errorf("--%s: %q: must be :NUMBER, which the kubelet and other Pods can reach", p.Flag, p.Address)
	}
	return nil
}

// Value returns the value of the last --NAME=VALUE or --NAME VALUE of the arguments.
func Value(args []string, name string) (value string, given bool) {
	for i, arg := range args {
		flag, text, ok := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch {
		case !strings.HasPrefix(arg, "-") || flag != name:
		case ok:
			value, given = text, true
		case i+1 < len(args):
			value, given = args[i+1], true
		}
	}
	return value, given
}

// Defaults returns the arguments after the defaults that they do not set. A default is
// --NAME=VALUE.
func Defaults(args []string, defaults ...string) []string {
	var all []string
	for _, d := range defaults {
		name, _, _ := strings.Cut(strings.TrimLeft(d, "-"), "=")
		if _, given := Value(args, name); !given {
			all = append(all, d)
		}
	}
	return append(all, args...)
}

// rulesFile has the groups of alerts of a program.
const rulesFile = "rules.yaml"

// page is the data of the templates.
type page struct {
	Options
	Workload
	Rules      string            // the content of rulesFile
	Dashboards map[string]string // by the name of the file, without .json
}

// render returns the manifests, sorted by the names of their files. Values are JSON in the
// templates, so they cannot change the structure.
func (p Program) render(o Options, w Workload) ([]byte, error) {
	data, texts := page{Options: o, Workload: w, Dashboards: map[string]string{}}, map[string]string{}
	for _, folder := range []fs.FS{shared, p.Manifests} {
		err := fs.WalkDir(folder, ".", func(path string, file fs.DirEntry, err error) error {
			if err != nil || file.IsDir() {
				return err
			}
			text, err := fs.ReadFile(folder, path)
			if name, ok := strings.CutSuffix(file.Name(), ".json"); ok {
				data.Dashboards[name] = string(text)
			} else {
				texts[file.Name()] = string(text)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	data.Rules = texts[rulesFile]
	delete(texts, rulesFile)
	var all []string
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		t, err := template.New(name).Funcs(template.FuncMap{"json": toJSON, "indent": indent}).Parse(texts[name])
		if err != nil {
			return nil, err
		}
		var out strings.Builder
		if err := t.Execute(&out, data); err != nil {
			return nil, err
		}
		if text := strings.TrimSpace(out.String()); text != "" {
			all = append(all, text+"\n")
		}
	}
	return []byte(strings.Join(all, separator)), nil
}

func toJSON(v any) (string, error) {
	text, err := json.Marshal(v)
	return string(text), err
}

func indent(by int, text string) string {
	return strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n"+strings.Repeat(" ", by))
}

// objects returns the objects of manifests in YAML.
func objects(manifests []byte) (all []*unstructured.Unstructured, err error) {
	for document, err := range yamldoc.Split(manifests) {
		if err != nil {
			return nil, err
		}
		text, err := document.StrictJSON()
		if err != nil {
			return nil, err
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(text); err != nil {
			return nil, err
		}
		all = append(all, u)
	}
	return all, nil
}
